//! Going on with another list of nodes: a node was replaced.
//!
//! The server stays the same to clients and to other servers: it keeps its id, the calls that wait through it, and the
//! numbers of its beats and notices. What it leads it leads no more, because nothing that it asked the nodes of the old
//! list counts among those of the new one; it asks for the same lead there, by a ballot that it has never used.

use super::{
    QuorumStore,
    elect::Election,
    node::Mark,
    nodes::{Carrier, Wake},
    store::{Part, REFUSAL_PERIOD},
    trouble::Troubles,
};
use crate::{
    sync::{Mutex, Notify, Ordering},
    telemetry::seldom::Seldom,
};
use std::sync::{Arc, atomic::AtomicBool};
use tokio::{sync::watch, time::Instant};

impl<C: Carrier> QuorumStore<C> {
    /// The store of the same server on the nodes of a newer list of its cluster. The store before must not run any
    /// more; callers that it still has learn that their outcome is unknown.
    pub(super) fn succeed(before: &Self, carrier: C, mark: Mark) -> Self {
        let (me, nodes, now) = (before.me, mark.members.len(), before.clock.now());
        let nothing = Election::new(me, nodes, mark.partitions, Instant::now());
        let election = std::mem::replace(&mut *before.election.lock(), nothing);
        let part = |(number, part): (u16, &Part)| {
            let mut share = part.share.lock();
            let has_led = share.lead().is_some();
            share.resign(now, &before.exit(usize::from(number)));
            let mut next = share.among_others();
            if has_led && !before.is_leaving() {
                next.ask(election.highest(number), now);
            }
            Part { share: Mutex::new(next), carried: Arc::clone(&part.carried), leader: Mutex::default() }
        };
        let parts = (0..mark.partitions).zip(&before.parts).map(part).collect();
        before.led_anew.notify_waiters();
        // What was on its way to streams and waiters is lost.
        before.notices.hints_lost();
        before.notices.events_lost();
        Self {
            parts,
            wake: (0..nodes).map(|_| Wake::default()).collect(),
            beat_lost: (0..nodes).map(|_| Notify::new()).collect(),
            election: Mutex::new(election),
            carrier,
            mark,
            me,
            clock: Arc::clone(&before.clock),
            notices: Arc::clone(&before.notices),
            courier: Arc::clone(&before.courier),
            led_anew: Notify::new(),
            beat_soon: Notify::new(),
            loss: watch::Sender::new(None),
            beats: Arc::clone(&before.beats),
            leaves: Arc::clone(&before.leaves),
            left: AtomicBool::new(before.left.load(Ordering::Relaxed)),
            all_led_at: Mutex::new(*before.all_led_at.lock()),
            metrics: Arc::clone(&before.metrics),
            chores: Arc::clone(&before.chores),
            troubles: Troubles::of(nodes),
            refusals: Seldom::new(REFUSAL_PERIOD),
            newer: watch::Sender::new(None),
            prefix: before.prefix.clone(),
        }
    }
}
