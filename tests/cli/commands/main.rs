//! The command line as its users run it: real servers, real commands, real signals.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod access;
mod acquire_abandoned;
mod addresses;
#[path = "../../support/authority.rs"]
mod authority;
mod calls;
#[path = "../../support/certificates.rs"]
mod certificates;
mod client_testing;
mod completion;
mod deadlocks;
mod export;
mod fleet;
mod help;
mod hold;
mod hung_server;
#[path = "../../support/issuer.rs"]
mod issuer;
mod issuer_keys;
mod last_answer;
mod marks;
mod observe;
#[path = "../../support/old_server.rs"]
mod old_server;
mod one_redis;
mod port_file;
mod quorum;
mod recipes;
#[path = "../../support/redis.rs"]
mod redis;
mod refusals;
mod refused_conversions;
mod refused_modes;
mod run;
mod run_also;
mod run_danger;
mod run_descendants;
mod run_refused;
mod screen;
mod serve;
mod status;
#[path = "../../support/binary.rs"]
mod support;
mod terminal;
mod test_faults;
mod tls;
mod waiters;
mod waiting;
