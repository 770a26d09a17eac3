//! The end of a server: it hands its partitions over, and the others hear that it leaves.

use super::QuorumStore;
use crate::store::quorum::nodes::client::NodeClient;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long a server that leaves waits for others to take its partitions over.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long its heartbeats may take.
const HEARTBEAT_TIME_MAX: Duration = Duration::from_millis(300);
/// How often it looks whether they have.
const LEAVE_PERIOD: Duration = Duration::from_millis(5);

impl<C: NodeClient> QuorumStore<C> {
    /// Hands all partitions over, and leads none any more. Where nobody else is there to take one over, or does not in
    /// time, it just stops to lead. The other servers are told, so that they need not find out by its silence.
    pub async fn leave(&self) {
        self.membership.begin_to_leave();
        // Who leaves itself takes nothing over, and who came a moment ago may be the one that does.
        self.heartbeat_at_all_in_time().await;
        let until = Instant::now() + LEAVE_TIME_MAX;
        let mut hands_over = false;
        loop {
            let has_heir = self.begin_to_leave();
            hands_over |= has_heir;
            // A successor asks this server for its waiters, and waits for the answer before it serves anybody.
            let is_led = self.parts.iter().all(|part| part.leader.lock().is_some());
            let is_needed = self.parts.iter().any(|part| part.proposer.lock().is_needed());
            // Who was deposed a moment ago may be needed too.
            let is_over = if is_led { !is_needed } else { !hands_over };
            // What this server was asked to take over, it hands on.
            let now = self.clock.now();
            let campaigns = self.parts.iter().any(|part| part.proposer.lock().is_candidate(now));
            let may_come = self.membership.election.lock().may_come(Instant::now());
            if !has_heir && !campaigns && !may_come && is_over || until <= Instant::now() {
                break;
            }
            self.tend_once();
            if is_led && is_needed || may_come && !has_heir {
                // It sees the successor's first batch, or who came.
                self.heartbeat_at_all_in_time().await;
            }
            sleep(LEAVE_PERIOD).await;
        }
        for (at, part) in self.parts.iter().enumerate() {
            part.proposer.lock().resign(self.clock.now(), &self.exit(at));
        }
        // The waiters that it presents are to arrive.
        let sent = async {
            while !self.delivery.transport.is_idle() {
                sleep(LEAVE_PERIOD).await;
            }
        };
        let _ = timeout(HEARTBEAT_TIME_MAX, sent).await;
        self.membership.note_left();
        // Where that does not arrive, the others wait for their suspicion.
        self.heartbeat_at_all_in_time().await;
    }

    /// A heartbeat to all nodes, of which one may not answer.
    async fn heartbeat_at_all_in_time(&self) {
        let _ = timeout(HEARTBEAT_TIME_MAX, self.heartbeat_at_all()).await;
    }

    /// Begins to hand over all that this server leads. False if there is nothing, or nobody to take it.
    fn begin_to_leave(&self) -> bool {
        let now = self.clock.now();
        let led = (0..).zip(self.parts.iter()).filter(|(_, part)| part.proposer.lock().lead().is_some());
        let mine: Vec<u16> = led.map(|(number, _)| number).collect();
        let heirs: Vec<_> = {
            let election = self.membership.election.lock();
            let heirs = election.heirs(&mine, true, Instant::now()).into_iter();
            heirs.map(|(partition, heir)| (partition, heir, election.told(heir))).collect()
        };
        let mut has_heir = false;
        for (partition, heir, told) in heirs {
            let mut proposer = self.parts[usize::from(partition)].proposer.lock();
            // A server that cannot read the partition would end this lead for nothing.
            if let Some(lead) = proposer.lead().filter(|lead| lead.is_readable_by(told)) {
                lead.begin_hand_over(heir, now);
                has_heir = true;
            }
        }
        has_heir
    }
}
