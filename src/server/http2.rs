//! The settings of HTTP/2: what one connection may ask for.

use std::time::Duration;
use tonic::transport::Server;

/// How often an idle connection is pinged, and how long the answer may take. The server notices a vanished client
/// within their sum. The leases of the client are not affected.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// HTTP/2 streams of a connection beyond one for each call that may wait. Without them, a client whose waiting calls
/// use up the connection could not release. A client obeys this bound by making its further calls wait.
const STREAMS_SPARE: usize = 1_024;
/// Bytes that a client may send ahead on one stream, and on all streams of a connection, before the server has read
/// them. h2 closes the whole connection (ENHANCE_YOUR_CALM) once small DATA frames that it buffers have an overhead of
/// half the connection's window, where a frame of n bytes counts 256 - n. grpc-go sends a frame for each message, such
/// as 60 bytes for a release. So flow control has to stop such a client first: nine full windows of unread releases
/// stay below the limit.
const STREAM_WINDOW: u32 = 256 * 1_024;
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;
/// The longest headers of a call, in bytes as HTTP/2 counts them: name, value and 32 for each header. gRPC libraries
/// send at most 8 KiB unless they are told otherwise. Beyond it, h2 answers the call with HTTP status 431.
const HEADER_LIST_MAX: u32 = 16 * 1_024;
/// The most streams that a client may cancel before they are processed. Beyond it, h2 closes the connection
/// (ENHANCE_YOUR_CALM) to stop a rapid reset attack (CVE-2023-44487). A client that cancels many waiting calls is no
/// attack (qdrant #1907).
const PENDING_RESETS_MAX: usize = 1_024;
/// The most streams that the server resets in the life of a connection because the client broke the protocol on them,
/// such as data beyond the window. Beyond it, h2 closes the connection (ENHANCE_YOUR_CALM), because each reset may
/// abandon work that has begun (CVE-2025-8671). tonic has no bound unless it is told one.
const ERROR_RESETS_MAX: usize = 1_024;

/// A server with these settings, whose connections have room for as many waiting calls.
pub(super) fn server(waiters: usize) -> Server {
    let streams = waiters.saturating_add(STREAMS_SPARE);
    Server::builder()
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .max_concurrent_streams(u32::try_from(streams).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(HEADER_LIST_MAX)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
        .http2_max_local_error_reset_streams(Some(ERROR_RESETS_MAX))
}
