//! What servers send each other. It passes through the nodes, so servers need no addresses of each other.
//!
//! A parcel may be lost, and is never delivered twice. Parcels between two servers may arrive in another order when
//! they pass through different nodes.
//!
//! What is sent is the number of its layout, in one byte, and values in CBOR: a parcel is its sender and its frames.
//! The types of the domain derive their codec (`domain/codec.rs`), so a server skips what the version after it adds to
//! them.

mod error;
mod list;
mod parcel;
#[cfg(test)]
mod tests;

pub use error::FrameError;
pub use parcel::parcels;

use crate::store::quorum::paxos::recovery::StrangerReport;
use crate::{
    domain::{
        codec,
        command::{Acquire, Command, Outcome},
        features::Features,
        ids::Call,
        limits::{LOCK_NAME_BYTES_MAX, PAGE_SIZE_MAX},
        name::LockName,
        outcome::{AcquireOutcome, LockView},
        time::StoreTime,
        token::FencingToken,
    },
    store::{
        Notice,
        quorum::paxos::ballot::{Ballot, ServerId},
    },
};
use list::Entries;
use minicbor::{Decode, Decoder, Encode};
use std::time::Duration;

/// The number of the layout that this server writes and reads.
pub const LAYOUT: u8 = 2;

/// How often a server tells each node that it lives, and looks what the node has.
pub(crate) const HEARTBEAT_PERIOD: Duration = Duration::from_millis(350);
/// A parcel of this size gets no further frame.
pub const PARCEL_BYTES_FULL: usize = 256 * 1024;
/// A heartbeat has at most so many bytes.
pub const HEARTBEAT_BYTES_MAX: usize = 256 * 1024;
/// A parcel has at most so many frames and entries of their lists, and so has a heartbeat.
pub const MESSAGES_MAX: usize = 16 * 1024;
/// The list of a frame is sent in parts of at most this length.
pub const LIST_MAX: usize = 512;

/// The ends of leases in a partition that its leader tells its successor, at most.
pub const LAST_ENDS_MAX: usize = 4_000;

const _: () = assert!((PAGE_SIZE_MAX as usize) < MESSAGES_MAX, "a page is sent in one part");
const _: () = assert!(LAST_ENDS_MAX + 2 < MESSAGES_MAX, "the ends are sent in one frame, beside its sender");

/// Frames that one server sends another at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The sender.
    pub from: ServerId,
    /// In the order in which they were sent.
    pub frames: Vec<Frame>,
}

/// One message to another server.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
#[cbor(context_bound = "AsMut<Entries>")]
pub enum Frame {
    /// Forwards work to the leader of a partition.
    #[n(0)]
    Forward {
        /// Tells the sender which work a reply belongs to.
        #[n(0)]
        number: u64,
        /// The partition.
        #[n(1)]
        partition: u16,
        /// The ballot by which the receiver leads, as far as the sender knows. A leader by another ballot does nothing.
        #[n(2)]
        ballot: Ballot,
        /// The partition's time after which the work is not begun: then its caller has given up.
        #[n(3)]
        not_after: StoreTime,
        /// The work.
        #[n(4)]
        work: Work,
    },
    /// The reply to a `Forward`.
    #[n(1)]
    Reply {
        /// That of the work.
        #[n(0)]
        number: u64,
        /// The partition's time when the work was begun or refused; zero from who does not lead.
        #[n(1)]
        now: StoreTime,
        /// What came of it.
        #[n(2)]
        result: Result<Done, Refusal>,
    },
    /// Notices for calls, streams and watchers of the receiver.
    #[n(2)]
    Notices {
        /// Notices to one server are numbered, from 1 on. This is the number of the first of these.
        #[n(0)]
        first: u64,
        /// The notices.
        #[cbor(n(1), with = "list")]
        notices: Vec<Notice>,
    },
    /// A new leader asks for the waiters of a partition that wait on the receiver.
    #[n(3)]
    Gather {
        /// The partition.
        #[n(0)]
        partition: u16,
        /// The ballot by which the sender leads.
        #[n(1)]
        ballot: Ballot,
        /// The partition's time when this was sent.
        #[n(2)]
        now: StoreTime,
    },
    /// Waiters of a partition, for a new leader.
    #[n(4)]
    Waiters {
        /// The partition.
        #[n(0)]
        partition: u16,
        /// The leader's ballot.
        #[n(1)]
        ballot: Ballot,
        /// The partition's time after which they are not queued: calls may have been dropped since, and the tombstones
        /// that their cleanup left be gone.
        #[n(2)]
        not_after: StoreTime,
        /// Some of the waiters.
        #[cbor(n(3), with = "list")]
        waiters: Vec<PresentedWaiter>,
        /// Whether there are no more.
        #[n(4)]
        is_last: bool,
    },
    /// What became of waiters that were presented.
    #[n(5)]
    Presented {
        /// The partition.
        #[n(0)]
        partition: u16,
        /// The leader's ballot.
        #[n(1)]
        ballot: Ballot,
        /// For each call, its outcome, and its queue position if it is queued.
        #[cbor(n(2), with = "list")]
        outcomes: Vec<(Call, AcquireOutcome, u64)>,
    },
    /// The leader of a partition asks the receiver to take it over.
    #[n(6)]
    HandOver {
        /// The partition.
        #[n(0)]
        partition: u16,
        /// The leader's ballot.
        #[n(1)]
        ballot: Ballot,
        /// Renewals that no record has. `None` if they are too many: then TTLs begin anew.
        #[n(2)]
        ends: Option<LastEnds>,
    },
    /// The sender does not take a partition over: it leaves, too.
    #[n(7)]
    Declines {
        /// The partition.
        #[n(0)]
        partition: u16,
        /// The ballot of the leader that hands over.
        #[n(1)]
        ballot: Ballot,
    },
}

/// The ends of leases that a leader knows when it hands over.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(context_bound = "AsMut<Entries>")]
pub struct LastEnds {
    /// The number of the leader's last batch. Whoever goes on from another one must not use the ends: the leader went
    /// on itself and may have renewed leases.
    #[n(0)]
    pub seq: u64,
    /// When leases end whose records say something else, by their tokens.
    #[cbor(n(1), with = "list")]
    pub ends: Vec<(FencingToken, StoreTime)>,
}

/// What is forwarded to a leader.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Work {
    /// To carry out a command.
    #[n(0)]
    Run(#[n(0)] LockName, #[n(1)] Command),
    /// To list locks.
    #[n(1)]
    List {
        /// Their names begin with it.
        #[cbor(n(0), decode_with = "read_prefix")]
        prefix: String,
        /// The slot to begin with.
        #[n(1)]
        slot: u64,
        /// At most so many.
        #[n(2)]
        limit: u32,
        /// How many slots may be looked at.
        #[n(3)]
        budget: u32,
    },
    /// To send events from now on. Heartbeats up to this number do not know yet that somebody watches.
    #[n(2)]
    Watch(#[n(0)] u64),
}

/// Work that was done.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
#[cbor(context_bound = "AsMut<Entries>")]
pub enum Done {
    /// Of `Run`.
    #[n(0)]
    Outcome {
        /// The command's outcome.
        #[n(0)]
        outcome: Outcome,
        /// The queue position of a request that is queued: its number among all waiters that came to this leader.
        #[n(1)]
        queue_position: u64,
        /// An upper bound on how many requests are queued before it.
        #[n(2)]
        ahead: u64,
    },
    /// Of `List`.
    #[n(1)]
    Page {
        /// The locks.
        #[cbor(n(0), with = "list")]
        locks: Vec<(LockName, LockView)>,
        /// The slot to go on with; `None` at the end of the partition.
        #[n(1)]
        next: Option<u64>,
        /// How many slots of the budget are left.
        #[n(2)]
        budget: u32,
    },
    /// Of `Watch`.
    #[n(2)]
    Watching,
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Refusal {
    /// The receiver does not lead the partition by this ballot. Nothing was done.
    #[n(0)]
    NotLeader,
    /// It came too late. Nothing was done.
    #[n(1)]
    TooLate,
    /// The leader hears no majority of the nodes. Nothing was done.
    #[n(2)]
    Unheard,
    /// The leader has too much to do. Nothing was done.
    #[n(3)]
    Overloaded,
    /// The leader lost the lead meanwhile: it is not known whether it was done.
    #[n(4)]
    Deposed,
}

/// A call that waits, as its server presents it to a new leader.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PresentedWaiter {
    /// The leader that queued it, and its queue position there. They are served in this order.
    #[n(0)]
    pub queue_position: (Ballot, u64),
    /// The lock.
    #[n(1)]
    pub name: LockName,
    /// What it asked for.
    #[n(2)]
    pub acquire: Acquire,
    /// Whether it was dropped a moment ago, so that its queue position is to be kept for a repeat, and it is not to be
    /// served.
    #[n(3)]
    pub is_dropped: bool,
}

/// The payload of a heartbeat, for all other servers. Nodes keep the last one of each server, and do not decode it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(context_bound = "AsMut<Entries>")]
pub struct Heartbeat {
    /// Rises with each heartbeat: who does not see it rise takes the server for dead.
    #[n(0)]
    pub count: u64,
    /// Whether clients of this server watch events.
    #[n(1)]
    pub watches: bool,
    /// Whether it is about to leave, and takes no partition over.
    #[n(2)]
    pub leaves: bool,
    /// Whether it has left: no call waits on it any more. Its last heartbeat says so.
    #[n(3)]
    pub left: bool,
    /// The partitions that it leads.
    #[cbor(n(4), with = "list")]
    pub leads: Vec<Led>,
    /// How many notices it has sent to each server.
    #[cbor(n(5), with = "list")]
    pub notices: Vec<(ServerId, u64)>,
    /// What it knows of partitions whose only node lost its memory.
    #[cbor(n(6), with = "list")]
    pub strangers: Vec<StrangerReport>,
    /// What it understands. A server of the first version tells none.
    #[cbor(n(7), default)]
    pub features: Features,
}

/// A partition that a server leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Led {
    /// The partition.
    #[n(0)]
    pub partition: u16,
    /// The round of its ballot.
    #[n(1)]
    pub round: u64,
    /// The partition's time when this was sent.
    #[n(2)]
    pub now: StoreTime,
}

/// The beginning of lock names, which may be empty.
fn read_prefix<C>(from: &mut Decoder<'_>, _: &mut C) -> Result<String, minicbor::decode::Error> {
    codec::bounded(from, "prefix", LOCK_NAME_BYTES_MAX)
}
