//! What the tests and benchmarks of this repository use of the server. No API: it changes without notice.
//!
//! Programs use the gRPC API, through a client.

/// Who may do what.
pub mod access {
    pub use crate::access::*;
}
/// Requests and replies.
pub mod api {
    pub use crate::api::*;
}
/// Clocks.
pub mod clock {
    pub use crate::clock::*;
}
/// Options of the server.
pub mod config {
    pub use crate::config::*;
}
/// The rules of locks.
pub mod domain {
    pub use crate::domain::*;
}
/// Waiting, keeping alive, watching.
pub mod locks {
    pub use crate::locks::*;
}
/// Connections to Redis.
pub mod node {
    pub use crate::node::*;
}
/// The server.
pub mod server {
    pub use crate::server::*;
}
/// Stores.
pub mod store {
    pub use crate::store::*;
}
/// Metrics and traces.
pub mod telemetry {
    pub use crate::telemetry::*;
}
