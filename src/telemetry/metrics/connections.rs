//! Connections of clients, what the bounds of the server refuse, and TLS.

use super::{
    label::{Counters, label},
    register,
};
use prometheus_client::{
    metrics::gauge::Gauge,
    registry::{Registry, Unit},
};

label! {
    /// A bound of the server.
    Bound = "bound" {
        /// Open connections.
        Connections = "connections",
        /// Open connections from one IP address.
        ConnectionsPerPeer = "connections_per_peer",
        /// Handshakes under way.
        Handshakes = "handshakes",
        /// Handshakes under way with one IP address.
        HandshakesPerPeer = "handshakes_per_peer",
        /// The time of a handshake.
        HandshakeTime = "handshake_time",
        /// What the main port speaks.
        Protocol = "protocol",
        /// Open calls.
        Calls = "calls",
        /// Open calls of one connection.
        CallsPerConnection = "calls_per_connection",
        /// Open List calls.
        Lists = "lists",
        /// Open health watches.
        HealthWatches = "health_watches",
        /// The content type of calls.
        ContentType = "content_type",
        /// The time in which the message of a unary request arrives.
        RequestTime = "request_time",
        /// Calls of one IP address whose messages have not arrived with their headers.
        LateRequests = "late_requests",
        /// Resets and other floods of one connection.
        Resets = "resets",
        /// SETTINGS frames of one connection.
        Settings = "settings",
        /// Bytes that clients have sent and no call has taken.
        Backlog = "backlog",
        /// The time for which a response may be unread.
        Unread = "unread",
        /// Open connections of the admin port.
        AdminConnections = "admin_connections",
        /// The time in which the first request arrives on the admin port.
        AdminRequestTime = "admin_request_time",
        /// The time for which an answer of the admin port may be unread.
        AdminUnread = "admin_unread",
    }
}

label! {
    /// The outcome of a TLS handshake.
    TlsHandshake = "outcome" {
        /// The connection is encrypted, and the client has the certificate that it needs.
        Ok = "ok",
        /// Server and client did not agree.
        Failed = "failed",
    }
}

label! {
    /// What came of changed TLS files.
    TlsReload = "outcome" {
        /// New connections use them.
        Ok = "ok",
        /// They cannot be used.
        Failed = "failed",
    }
}

/// Connections of clients, what the bounds of the server refuse, and TLS.
#[derive(Debug)]
pub struct ConnectionMetrics {
    /// Open connections.
    pub open: Gauge,
    /// Open calls.
    pub open_calls: Gauge,
    /// What bounds refused.
    pub refusals: Counters<Bound>,
    /// TLS handshakes.
    pub tls_handshakes: Counters<TlsHandshake>,
    /// When the server's certificate expires, in Unix time; 0 without TLS.
    pub tls_expiry: Gauge,
    /// Changes of the TLS files.
    pub tls_reloads: Counters<TlsReload>,
}

impl ConnectionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let it = registry;
        let tls_expiry = Gauge::default();
        let help = "When the first certificate of the server's chain expires, in Unix time; 0 without TLS";
        it.register_with_unit("tls_certificate_expiry_timestamp", help, Unit::Seconds, tls_expiry.clone());
        Self {
            open: register(it, "connections", "Open connections to the main port, with those in their handshake"),
            open_calls: register(it, "open_calls", "Calls of the main port that have not ended, with streams"),
            refusals: Counters::register(it, "refusals", "Connections and calls that a bound of the server refused"),
            tls_handshakes: Counters::register(
                it,
                "tls_handshakes",
                "TLS handshakes that ended in time. Those that took too long are refusals",
            ),
            tls_expiry,
            tls_reloads: Counters::register(it, "tls_reloads", "Changes of the TLS files: used, or not fit for use"),
        }
    }
}

impl Default for ConnectionMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}
