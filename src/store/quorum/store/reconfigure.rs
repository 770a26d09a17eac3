//! Reconfiguration: continues with another list of nodes after the replacement of a node.
//!
//! The server stays the same to clients and to other servers: it keeps its id, the calls that wait on it, and the
//! numbers of its heartbeats and notices. What it leads it leads no more, because nothing that it sent the nodes of
//! the old list counts among those of the new one; it campaigns for the same lead there, by a ballot that it has never
//! used.

use super::{
    QuorumStore,
    forgotten::Forgotten,
    partitions::{Part, Partitions},
};
use crate::{
    store::quorum::{
        membership::election::Election,
        nodes::{client::NodeClient, driver::Driver},
        paxos::node::Mark,
    },
    sync::Mutex,
};
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};

impl<C: NodeClient> QuorumStore<C> {
    /// The store of the same server on the nodes of a newer list of its cluster. The store before must not run any
    /// more; callers that it still has learn that their outcome is unknown.
    pub(super) fn succeed(before: &Self, client: C, mark: Mark) -> Self {
        let (me, nodes, now) = (before.delivery.me, mark.members.len(), before.clock.now());
        let nothing = Election::new(me, nodes, mark.partitions, Instant::now());
        let membership = before.membership.move_to(nothing);
        let part = |(number, part): (u16, &Part)| {
            let mut proposer = part.proposer.lock();
            let has_led = proposer.lead().is_some();
            proposer.resign(now, &before.exit(usize::from(number)));
            let mut next = proposer.among_others();
            if has_led && !before.membership.is_leaving() {
                next.campaign(membership.election.lock().highest(number), now);
            }
            Part {
                proposer: Mutex::new(next),
                local_waiters: Arc::clone(&part.local_waiters),
                leader: Mutex::default(),
            }
        };
        let each = (0..mark.partitions).zip(before.parts.iter()).map(part).collect();
        let mut parts = Partitions::of(each, Arc::clone(&before.parts.metrics));
        *parts.all_led_at.get_mut() = *before.parts.all_led_at.lock();
        before.parts.led_anew.notify_waiters();
        // What was on its way to streams and waiters is lost.
        before.delivery.lost();
        let mut driver = Driver::new(client, mark);
        driver.prefix.clone_from(&before.driver.prefix);
        Self {
            driver,
            parts,
            membership,
            delivery: before.delivery.share(),
            chores: Arc::clone(&before.chores),
            clock: Arc::clone(&before.clock),
            forgotten: Forgotten::default(),
            loss: watch::Sender::new(None),
        }
    }
}
