//! The connection between the protocol and the nodes, as a trait: the protocol does not know that nodes are Redis
//! servers.

use crate::{
    node::Pushes,
    store::quorum::paxos::{
        ballot::ServerId,
        node::{NodeAnswer, NodeRequest},
    },
};
use std::sync::Arc;

/// The bytes of keys and records from which on a send takes no further request. A node answers a send as a whole, and
/// what is under way has to be answered in time: a snapshot that went in one send never would be.
pub const SEND_FULL_FROM_BYTES: usize = 1024 * 1024;

/// A parcel has at most so many bytes. Redis keeps up to 32 MiB for a server that does not read, as it is set up
/// (`client-output-buffer-limit pubsub`), and then ends its subscription.
pub const PARCEL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A client of the nodes: brings requests to them and answers back, and parcels to servers.
pub trait NodeClient: Send + Sync + 'static {
    /// Sends these to a node, in this order, and after what was sent to it before. (They may arrive in another order:
    /// that costs time, no more.) The answers come in the order of the requests; a request that the node could not
    /// carry out has the reason for its answer. The first poll sends them: dropped after that, they may arrive.
    fn send(&self, node: usize, requests: Vec<NodeRequest>) -> impl Future<Output = Result<Answers, Lost>> + Send;

    /// Resolves when the node can be asked. What was asked before may have been lost.
    fn up(&self, node: usize) -> impl Future<Output = ()> + Send;

    /// The wall clock of a node, in microseconds since 1970. None if it does not answer.
    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send;

    /// Sends a parcel to a server through a node. False: the node is away, or the server does not listen there, so it
    /// gets nothing. True is no promise that it does. Parcels through one node arrive in order, except while
    /// connections to it come and go. The first poll sends it: dropped after that, it may arrive.
    fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> impl Future<Output = Result<bool, Lost>> + Send;

    /// The parcels that come to this server through a node. The first item, and one after each interruption, says that
    /// parcels may have been lost; there is none while the node is away. A second call ends what the first one gave.
    fn listen(&self, node: usize, me: ServerId) -> Pushes;
}

impl<C: NodeClient> NodeClient for Arc<C> {
    fn send(&self, node: usize, requests: Vec<NodeRequest>) -> impl Future<Output = Result<Answers, Lost>> + Send {
        C::send(self, node, requests)
    }

    fn up(&self, node: usize) -> impl Future<Output = ()> + Send {
        C::up(self, node)
    }

    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send {
        C::wall_clock(self, node)
    }

    fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> impl Future<Output = Result<bool, Lost>> + Send {
        C::publish(self, node, to, parcel)
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        C::listen(self, node, me)
    }
}

/// The answers to requests, or why there is none.
pub type Answers = Vec<Result<NodeAnswer, String>>;

/// Requests whose answers did not come: each may have been carried out, or may yet be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request to the node failed: {0}")]
pub struct Lost(pub String);
