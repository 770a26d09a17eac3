//! What servers send each other. It passes through the nodes, so servers need no addresses of each other.
//!
//! A parcel may be lost, and is never delivered twice. Parcels between two servers may arrive in another order when
//! they pass through different nodes.
//!
//! What is sent is the number of its layout, in one byte, and protobuf messages, each after its length. The messages
//! are private to servers, as those of records are ([`record`](crate::store::partition::record)).

mod ask;
mod command;
mod error;
mod hand_over;
mod message;
mod notice;
mod outcome;
mod parcel;
mod reply;
mod stream;
#[cfg(test)]
mod tests;
mod told;
mod view;
mod waiters;
mod wire;

pub use error::FrameError;
pub use parcel::parcels;

use super::ballot::{Ballot, ServerId, Stamp};
use crate::{
    domain::{
        command::{Acquire, Command, Outcome},
        ids::Call,
        limits::PAGE_SIZE_MAX,
        name::LockName,
        outcome::{AcquireOutcome, LockView},
        time::StoreTime,
        token::FencingToken,
    },
    store::Notice,
};

/// The number of the layout that this server writes and reads.
pub const LAYOUT: u8 = 1;

/// A parcel has at most so many bytes. Redis keeps up to 32 MiB for a server that does not read, as it is set up
/// (`client-output-buffer-limit pubsub`), and then ends its subscription.
pub const PARCEL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A parcel of this size gets no further frame.
pub const PARCEL_BYTES_FULL: usize = 256 * 1024;
/// What a server tells with a beat has at most so many bytes.
pub const TOLD_BYTES_MAX: usize = 256 * 1024;
/// A frame without its list, or an entry of a list, has at most so many bytes. The largest, with all the metadata that
/// there can be, has about a quarter of it.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// A parcel has at most so many frames and entries of their lists.
pub const MESSAGES_MAX: usize = 16 * 1024;
/// The list of a frame is sent in parts of at most this length.
pub const LIST_MAX: usize = 512;

/// The ends of leases in a partition that its leader tells its successor, at most.
pub const LAST_ENDS_MAX: usize = 4_000;

const _: () = assert!((PAGE_SIZE_MAX as usize) < MESSAGES_MAX, "a page is sent in one part");

/// Frames that one server sends another at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The sender.
    pub from: ServerId,
    /// In the order in which they were sent.
    pub frames: Vec<Frame>,
}

/// One message to another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Asks the leader of a partition for some work.
    Ask {
        /// Tells the sender which question a reply belongs to.
        number: u64,
        /// The partition.
        partition: u16,
        /// The ballot by which the receiver leads, as far as the sender knows. A leader by another ballot does nothing.
        ballot: Ballot,
        /// The partition's time after which the work is not begun: then its caller has given up.
        not_after: StoreTime,
        /// The work.
        work: Work,
    },
    /// The reply to an `Ask`.
    Reply {
        /// That of the question.
        number: u64,
        /// The partition's time when the work was begun or refused; zero from who does not lead.
        now: StoreTime,
        /// What came of it.
        result: Result<Done, Refusal>,
    },
    /// Notices for calls, streams and watchers of the receiver.
    Notices {
        /// Notices to one server are numbered, from 1 on. This is the number of the first of these.
        first: u64,
        /// The notices.
        notices: Vec<Notice>,
    },
    /// A new leader asks for the waiters of a partition that wait through the receiver.
    Gather {
        /// The partition.
        partition: u16,
        /// The ballot by which the sender leads.
        ballot: Ballot,
        /// The partition's time when this was sent.
        now: StoreTime,
    },
    /// Waiters of a partition, for a new leader.
    Waiters {
        /// The partition.
        partition: u16,
        /// The leader's ballot.
        ballot: Ballot,
        /// The partition's time after which they are not queued: calls may have been dropped since, and the tombstones
        /// that their cleanup left be gone.
        not_after: StoreTime,
        /// Some of the waiters.
        waiters: Vec<PresentedWaiter>,
        /// Whether there are no more.
        is_last: bool,
    },
    /// What became of waiters that were presented.
    Presented {
        /// The partition.
        partition: u16,
        /// The leader's ballot.
        ballot: Ballot,
        /// For each call, its outcome, and its place if it is queued.
        outcomes: Vec<(Call, AcquireOutcome, u64)>,
    },
    /// The leader of a partition asks the receiver to take it over.
    HandOver {
        /// The partition.
        partition: u16,
        /// The leader's ballot.
        ballot: Ballot,
        /// Renewals that no record has. `None` if they are too many: then TTLs begin anew.
        ends: Option<LastEnds>,
    },
    /// The sender does not take a partition over: it leaves, too.
    Declines {
        /// The partition.
        partition: u16,
        /// The ballot of the leader that asked.
        ballot: Ballot,
    },
}

/// The ends of leases that a leader knows when it hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEnds {
    /// The number of the leader's last batch. Whoever goes on from another one must not use the ends: the leader went
    /// on itself and may have renewed leases.
    pub seq: u64,
    /// When leases end whose records say something else, by their tokens.
    pub ends: Vec<(FencingToken, StoreTime)>,
}

/// What a leader is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// To carry out a command.
    Run(LockName, Command),
    /// To list locks.
    List {
        /// Their names begin with it.
        prefix: String,
        /// The slot to begin with.
        slot: u64,
        /// At most so many.
        limit: u32,
        /// How many slots may be looked at.
        budget: u32,
    },
    /// To send events from now on. Beats up to this number do not know yet that somebody watches.
    Watch(u64),
}

/// Work that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Of `Run`.
    Outcome {
        /// The command's outcome.
        outcome: Outcome,
        /// The place of a request that is queued: its number among all waiters that came to this leader.
        place: u64,
        /// An upper bound on how many requests are queued before it.
        ahead: u64,
    },
    /// Of `List`.
    Page {
        /// The locks.
        locks: Vec<(LockName, LockView)>,
        /// The slot to go on with; `None` at the end of the partition.
        next: Option<u64>,
        /// How many slots of the budget are left.
        budget: u32,
    },
    /// Of `Watch`.
    Watching,
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The receiver does not lead the partition by this ballot. Nothing was done.
    NotLeader,
    /// It came too late. Nothing was done.
    TooLate,
    /// The leader hears no majority of the nodes. Nothing was done.
    Unheard,
    /// The leader has too much to do. Nothing was done.
    Overloaded,
    /// The leader lost the lead meanwhile: it is not known whether it was done.
    Deposed,
}

/// A call that waits, as its server presents it to a new leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentedWaiter {
    /// The leader that queued it, and its place there. They are served in this order.
    pub place: (Ballot, u64),
    /// The lock.
    pub name: LockName,
    /// What it asked for.
    pub acquire: Acquire,
    /// Whether it was dropped a moment ago, so that its place is to be kept for a repeat, and it is not to be served.
    pub is_dropped: bool,
}

/// What a server tells all others with each beat. Nodes keep the last one of each server, and do not look into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Rises with each beat: who does not see it rise takes the server for dead.
    pub count: u64,
    /// Whether clients of this server watch events.
    pub watches: bool,
    /// Whether it is about to leave, and takes no partition over.
    pub leaves: bool,
    /// Whether it has left: no call waits through it any more. Its last beat says so.
    pub left: bool,
    /// The partitions that it leads.
    pub leads: Vec<Led>,
    /// How many notices it has sent to each server.
    pub notices: Vec<(ServerId, u64)>,
    /// What it knows of partitions whose only node lost its memory.
    pub strangers: Vec<OfStranger>,
}

/// A partition that a server leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Led {
    /// The partition.
    pub partition: u16,
    /// The round of its ballot.
    pub round: u64,
    /// The partition's time when this was told.
    pub now: StoreTime,
}

/// What a server knows of a partition whose only node lost its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfStranger {
    /// The partition.
    pub partition: u16,
    /// The node's next membership: what was told before the node named it does not count.
    pub next: Stamp,
    /// The ballot of what the server has in memory, if it has any.
    pub memory: Option<Ballot>,
    /// The highest ballot of a batch that it has seen.
    pub written: Ballot,
    /// The highest ballot that it has seen at all.
    pub highest: Ballot,
    /// The highest token that it has seen.
    pub token: u64,
}
