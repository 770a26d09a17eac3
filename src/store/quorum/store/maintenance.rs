//! Periodic work: candidacies, timers of locks, planned changes of the leader.

use super::{QuorumStore, partitions::Part};
use crate::store::quorum::{
    nodes::client::NodeClient,
    paxos::ballot::Ballot,
    proposer::{role::Proposer, route::Route},
    rpc::messages::Frame,
};
use std::time::Duration;
use tokio::time::Instant;

/// How often a server looks after its partitions.
const TEND_PERIOD: Duration = Duration::from_millis(100);

impl<C: NodeClient> QuorumStore<C> {
    /// Looks after the partitions. Never ends.
    pub(super) async fn tend(&self) {
        loop {
            while self.tend_once() {
                tokio::task::yield_now().await;
            }
            self.measure();
            let now = self.clock.now();
            let due = self.parts.iter().filter_map(|part| part.proposer.lock().lead()?.next_due()).min();
            let left = due.map_or(TEND_PERIOD, |due| due.since(now).min(TEND_PERIOD));
            tokio::time::sleep(left).await;
        }
    }

    /// One round of that. Returns whether more may be due.
    pub fn tend_once(&self) -> bool {
        let mut more = false;
        for (number, part) in (0..).zip(self.parts.iter()) {
            let at = usize::from(number);
            let mut proposer = part.proposer.lock();
            let exit = self.exit(at);
            let now = self.clock.now();
            proposer.retry_broken(now);
            let Some(lead) = proposer.lead() else {
                if !proposer.was_refused(now)
                    && let Some(highest) = self.candidacy(number, part)
                {
                    proposer.campaign(highest, now);
                }
                continue;
            };
            lead.end_gathering(Route::hash_of, now, &exit);
            if lead.end_hand_over(now) {
                // It goes on: who waits for the successor asks here again.
                self.parts.led_anew.notify_waiters();
            }
            more |= lead.apply_due_timers(now, &exit);
            lead.refuse_late_acquires(now, &exit);
            self.note_shed(lead.take_shed());
            self.send_hand_over(at, &mut proposer);
        }
        self.note_not_forwarded();
        self.driver.wake_all();
        more
    }

    /// Has the successor take over what is handed over, when nothing is held back any more.
    pub(super) fn send_hand_over(&self, at: usize, proposer: &mut Proposer) {
        let Ok(partition) = u16::try_from(at) else { return };
        let Some(lead) = proposer.lead() else { return };
        if let Some((heir, ends)) = lead.hand_over() {
            self.delivery.transport.send(heir, Frame::HandOver { partition, ballot: lead.ballot(), ends });
        }
    }

    /// The highest ballot that was seen in a partition, if this server is to campaign for its lead.
    fn candidacy(&self, partition: u16, part: &Part) -> Option<Ballot> {
        let leader = *part.leader.lock();
        let election = self.membership.election.lock();
        let highest = election.highest(partition);
        // One that has introduced itself, and whose promises this server has not seen yet, is not to be deposed: it may
        // have begun its campaign just before this server would. If it dies at once, it is suspected once its promises
        // are seen.
        let is_led_anew = leader.is_some_and(|known| known.ballot > highest);
        let is_due = !self.membership.is_leaving() && !is_led_anew && election.is_due(partition, Instant::now());
        is_due.then_some(highest)
    }
}
