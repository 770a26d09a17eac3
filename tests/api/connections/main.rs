//! Connections of a server process: sockets, TLS, and bounds.
#![allow(clippy::unwrap_used, reason = "test code")]

mod backlog;
#[path = "../../support/binary.rs"]
mod binary;
mod bounds;
mod broken_off;
mod browsers;
#[path = "../../support/certificates.rs"]
mod certificates;
mod client_certificates;
mod expiry;
mod files;
#[path = "../../support/http.rs"]
mod http1;
mod idle;
mod kept;
mod metrics;
mod open_calls;
mod open_files;
mod plaintext;
mod protocols;
mod rapid_reset;
mod raw_calls;
mod rotation;
#[path = "../../support/session_stream.rs"]
mod session_stream;
mod slow_requests;
#[path = "../../support/stream.rs"]
mod stream;
#[path = "../../support/server.rs"]
mod support;
mod tls;
mod tls_client;
mod tls_server;
mod unix;
mod unread;
mod unreadable;
