//! Frames that wait to be sent, in two lanes for each server.
//!
//! One delivery at a time is under way to a server, and what comes meanwhile waits for the next one. That takes all
//! frames but acquires, in their order, and then as many acquires as there are other frames, at least
//! [`ACQUIRES_AT_ONCE`]. So a renewal waits for one delivery, however many acquires are forwarded, and acquires never
//! starve. Those that have waited for too long are refused ([`Lateness`]), whatever they would find: each costs a part
//! of a parcel. Why others may pass acquires is in `proposer/leading/lane.rs`.

use crate::{
    domain::limits::COMMAND_WINDOW,
    store::{
        Notice,
        lateness::{AGE_MAX, Lateness},
        quorum::{
            paxos::ballot::ServerId,
            rpc::messages::{Frame, LIST_MAX, Work},
        },
    },
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::time::Instant;

/// Frames that may wait in each lane to one server. More are not sent: a server that takes nothing must not fill the
/// memory of the others.
const FRAMES_MAX: usize = 65_536;
/// Acquires of one delivery, whatever else there is to send: less than a full parcel.
const ACQUIRES_AT_ONCE: usize = 512;

/// Frames to other servers.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    lanes: BTreeMap<ServerId, Lanes>,
    /// How many notices were sent to each server.
    notices: BTreeMap<ServerId, u64>,
    /// The highest of these that was forgotten. Where it goes on, a server that was silent and was not dead finds what
    /// is missing.
    forgotten: u64,
}

/// Frames to one server, at least one.
#[derive(Debug, Default)]
struct Lanes {
    first: Vec<Frame>,
    /// With the moments at which they came.
    acquires: VecDeque<(Instant, Frame)>,
    lateness: Lateness<Instant>,
}

/// What one delivery takes.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) to: ServerId,
    pub(super) frames: Vec<Frame>,
    /// Acquires that have waited for too long, and are not sent.
    pub(super) late: Vec<Frame>,
}

impl Outgoing {
    /// Adds a frame. False if its lane is full: then it is not sent.
    pub(super) fn add(&mut self, to: ServerId, frame: Frame) -> bool {
        let lanes = self.lanes.entry(to).or_default();
        let is_acquire = is_acquire(&frame);
        let fits = FRAMES_MAX > if is_acquire { lanes.acquires.len() } else { lanes.first.len() };
        if fits && is_acquire {
            lanes.acquires.push_back((Instant::now(), frame));
        } else if fits {
            lanes.first.push(frame);
        }
        fits
    }

    /// Adds a notice. One that does not fit counts as lost on the way: its number is missing.
    pub(super) fn add_notice(&mut self, to: ServerId, notice: Notice) {
        let number = self.number(to);
        if let Some(Frame::Notices { first, notices }) = self.lanes.get_mut(&to).and_then(|it| it.first.last_mut())
            && *first + notices.len() as u64 == number
            && notices.len() < LIST_MAX
        {
            notices.push(notice);
        } else {
            // The server that misses it asks.
            self.add(to, Frame::Notices { first: number, notices: vec![notice] });
        }
    }

    /// The number of the next notice to a server.
    pub(super) fn number(&mut self, to: ServerId) -> u64 {
        let sent = self.notices.entry(to).or_insert(self.forgotten);
        *sent += 1;
        *sent
    }

    /// How many notices were sent to each server.
    pub(super) fn notices(&self) -> Vec<(ServerId, u64)> {
        self.notices.iter().map(|(server, sent)| (*server, *sent)).collect()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The servers that something waits for, but for these.
    pub(super) fn servers_but(&self, busy: &BTreeSet<ServerId>) -> Vec<ServerId> {
        self.lanes.keys().filter(|server| !busy.contains(server)).copied().collect()
    }

    /// What goes to a server with one delivery.
    pub(super) fn take(&mut self, to: ServerId) -> Delivery {
        let mut delivery = Delivery { to, frames: Vec::new(), late: Vec::new() };
        let Some(lanes) = self.lanes.get_mut(&to) else { return delivery };
        delivery.frames = std::mem::take(&mut lanes.first);
        if !lanes.acquires.is_empty() {
            let now = Instant::now();
            let oldest = lanes.acquires.front().map(|(came, _)| now.duration_since(*came));
            let is_late = lanes.lateness.look(oldest, now, |moment| now.duration_since(moment));
            // Nobody waits for those that are older than the window, though they may not have been late for long.
            let age_max = if is_late { AGE_MAX } else { COMMAND_WINDOW };
            let late = lanes.acquires.partition_point(|(came, _)| now.duration_since(*came) > age_max);
            delivery.late.extend(lanes.acquires.drain(..late).map(|(_, frame)| frame));
            let acquires = delivery.frames.len().max(ACQUIRES_AT_ONCE).min(lanes.acquires.len());
            delivery.frames.extend(lanes.acquires.drain(..acquires).map(|(_, frame)| frame));
        }
        if lanes.acquires.is_empty() {
            self.lanes.remove(&to);
        }
        delivery
    }

    /// Forgets a server.
    pub(super) fn forget(&mut self, server: ServerId) {
        self.lanes.remove(&server);
        if let Some(sent) = self.notices.remove(&server) {
            self.forgotten = self.forgotten.max(sent);
        }
    }
}

fn is_acquire(frame: &Frame) -> bool {
    matches!(frame, Frame::Forward { work: Work::Run(_, command), .. } if command.is_acquire())
}
