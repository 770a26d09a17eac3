//! Finds the primary of a node: it is where the URL says, where a majority of Sentinels says, or where a Redis Cluster
//! says.
//!
//! Others may name another primary at any time, so they are asked before each connection, and once a second for the
//! connections that are there ([`known`]).

mod cluster;
mod known;
mod sentinel;
mod sentinels;
mod url;
pub(super) mod vote;

pub(super) use cluster::{Cluster, Said, vote as cluster_vote};
pub(super) use sentinels::Sentinels;
pub use url::{ClusterUrl, NodeUrl, SentinelUrl};

use super::RedisUrl;
use known::{Known, Primary};
use std::{future::pending, time::Duration};
use tokio::sync::watch;

/// How long those who name the primary may take to answer, connecting included.
pub(super) const FIND_MAX: Duration = Duration::from_secs(1);
/// What stands in the log and in errors about one that was asked is no longer than this.
const SAID_MAX: usize = 200;

/// No name of a host is longer.
const HOST_BYTES_MAX: usize = 255;

/// Says where the node is.
pub(super) enum Finder {
    /// Where the URL says.
    Fixed(Box<RedisUrl>),
    /// Where its Sentinels say.
    Sentinel(Box<Sentinels>),
    /// Where its Redis Cluster says.
    Cluster(Box<Cluster>),
}

/// Waits for news of the primary.
pub(super) struct Changes(Option<watch::Receiver<Primary>>);

impl Changes {
    /// Waits until the primary is another one, or not known any more. Dropped, it loses nothing.
    pub(super) async fn changed(&mut self) {
        let Some(changes) = &mut self.0 else { return pending().await };
        if changes.changed().await.is_err() {
            // The node is gone.
            pending::<()>().await;
        }
    }
}

/// An address as Sentinels and members of a cluster tell it: it has one spelling, so that votes for it are counted
/// together. None if that is no name of a host.
fn address_of(host: &str, port: u16) -> Option<String> {
    let host = host.to_ascii_lowercase();
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    (host.len() <= HOST_BYTES_MAX).then_some(address)
}

impl Finder {
    pub(super) fn new(url: &NodeUrl) -> Self {
        match url {
            NodeUrl::Redis(url) => Self::Fixed(Box::new(url.clone())),
            NodeUrl::Sentinel(url) => Self::Sentinel(Box::new(Sentinels::new(url))),
            NodeUrl::Cluster(url) => Self::Cluster(Box::new(Cluster::new(url))),
        }
    }

    /// Where the primary is now. The error says who said what. Takes no longer than [`Self::time_max`]. Dropped, it
    /// leaves nothing behind.
    pub(super) async fn find(&self) -> Result<RedisUrl, String> {
        match self {
            Self::Fixed(url) => Ok(RedisUrl::clone(url)),
            Self::Sentinel(sentinels) => sentinels.find().await,
            Self::Cluster(cluster) => cluster.find().await,
        }
    }

    /// What is known of a primary that others name.
    fn known(&self) -> Option<&Known> {
        match self {
            Self::Fixed(_) => None,
            Self::Sentinel(sentinels) => Some(&sentinels.known),
            Self::Cluster(cluster) => Some(&cluster.known),
        }
    }

    /// How long finding may take.
    pub(super) fn time_max(&self) -> Duration {
        if self.known().is_some() { FIND_MAX } else { Duration::ZERO }
    }

    /// Whether a connection to this address may still be used; the error says why not.
    pub(super) fn still_names(&self, address: &str) -> Result<(), String> {
        self.known().map_or(Ok(()), |known| known.still_names(address))
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.known().map(Known::changes))
    }

    /// A failure at an address, in words that say who named it.
    pub(super) fn explain(&self, address: &str, why: String) -> String {
        let Some(known) = self.known() else { return why };
        // There is no other one to name.
        let why = why.strip_suffix(super::handshake::NAME_THE_PRIMARY).unwrap_or(&why);
        format!("{}: {why}", known.naming(address))
    }

    /// Keeps what is known about the primary current, and calls `wake` when a switch is told. Never ends.
    pub(super) async fn follow(&self, wake: impl Fn()) {
        match self {
            Self::Fixed(_) => pending().await,
            Self::Sentinel(it) => it.known.follow(|asked| it.ask_each(asked), wake).await,
            Self::Cluster(it) => it.known.follow(|asked| it.ask_each(asked), wake).await,
        }
    }
}
