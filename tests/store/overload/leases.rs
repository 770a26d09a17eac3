//! Leases that sessions keep, and whether their holders could count on them all the time.

use crate::{
    Client,
    support::{acquire_request, read},
};
use fencepost_proto::v1::{
    BeatAnswer, RenewedLeases, SessionAcquire, SessionRequest, acquire_response::Outcome,
    session_request::Message as ClientMessage, session_response::Message as ServerMessage,
};
use std::{collections::HashMap, time::Duration};
use tokio::{
    sync::{
        mpsc::{self, UnboundedSender, unbounded_channel},
        watch,
    },
    task::JoinSet,
    time::{Instant, interval},
};
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};

pub(crate) const TTL: Duration = Duration::from_secs(3);
/// What a client keeps back of a TTL: 1 % for the drift of clocks, and a twentieth.
const MARGIN: Duration = Duration::from_millis(30 + 150);
const SESSIONS: usize = 10;
/// Acquires of a session under way at a time.
const AT_ONCE: usize = 16;
/// Between two looks whether a lease has ended.
const LOOK: Duration = Duration::from_millis(20);

/// What became of the leases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) renewals: usize,
    /// Those on which their holders could not count any more, because no renewal had come.
    pub(crate) ended: usize,
    /// Those of which the server said that they are lost.
    pub(crate) lost: usize,
    at_risk: usize,
    /// From the answer to a beat to the renewal.
    slowest: Duration,
}

/// Sessions that keep leases.
pub(crate) struct Leases {
    stop: watch::Sender<bool>,
    sessions: JoinSet<Counts>,
}

impl Leases {
    /// Acquires so many leases, and keeps them.
    pub(crate) async fn acquire(count: usize, client: impl Fn() -> Client) -> Self {
        let (stop, mut sessions) = (watch::Sender::new(false), JoinSet::new());
        let (ready, mut all_ready) = mpsc::channel(SESSIONS);
        for number in 0..SESSIONS {
            sessions.spawn(keep(number, count / SESSIONS, client(), ready.clone(), stop.subscribe()));
        }
        drop(ready);
        for _ in 0..SESSIONS {
            all_ready.recv().await.expect("a session that acquires its leases");
        }
        Self { stop, sessions }
    }

    /// What became of them since all were acquired.
    pub(crate) async fn done(self) -> Counts {
        self.stop.send_replace(true);
        self.sessions.join_all().await.into_iter().fold(Counts::default(), |all, one| Counts {
            renewals: all.renewals + one.renewals,
            ended: all.ended + one.ended,
            lost: all.lost + one.lost,
            at_risk: all.at_risk + one.at_risk,
            slowest: all.slowest.max(one.slowest),
        })
    }
}

/// One session, which reckons as a client does.
struct Holder {
    requests: UnboundedSender<SessionRequest>,
    number: usize,
    acquired: usize,
    asked: HashMap<u64, Instant>,
    answered: HashMap<u64, Instant>,
    valid_until: HashMap<u32, Instant>,
    counts: Counts,
}

async fn keep(
    number: usize,
    count: usize,
    mut client: Client,
    ready: mpsc::Sender<()>,
    mut stop: watch::Receiver<bool>,
) -> Counts {
    let (requests, outbound) = unbounded_channel();
    let mut responses = client.session(UnboundedReceiverStream::new(outbound)).await.unwrap().into_inner();
    let (asked, answered, valid_until) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut holder = Holder { requests, number, acquired: 0, asked, answered, valid_until, counts: Counts::default() };
    let (mut ready, mut looks) = (Some(ready), interval(LOOK));
    loop {
        while holder.acquired + holder.asked.len() < count && holder.asked.len() < AT_ONCE {
            holder.acquire((holder.acquired + holder.asked.len()) as u64 + 1);
        }
        if holder.acquired == count
            && let Some(ready) = ready.take()
        {
            holder.counts = Counts::default();
            ready.send(()).await.unwrap();
        }
        tokio::select! {
            biased;
            _ = looks.tick() => holder.look(),
            response = responses.next() => {
                let response = response.unwrap().unwrap();
                holder.hear(response.operation, response.message.unwrap());
            }
            _ = stop.wait_for(|stop| *stop) => return holder.counts,
        }
    }
}

impl Holder {
    fn send(&self, operation: u64, message: ClientMessage) {
        self.requests.send(SessionRequest { operation, message: Some(message) }).unwrap();
    }

    fn acquire(&mut self, operation: u64) {
        let request = Some(acquire_request(&format!("kept/{}/{operation}", self.number), TTL));
        let handle = u32::try_from(operation).unwrap();
        self.asked.insert(operation, Instant::now());
        self.send(operation, ClientMessage::Acquire(SessionAcquire { request, handle, release_on_disconnect: false }));
    }

    fn look(&mut self) {
        let (now, before) = (Instant::now(), self.valid_until.len());
        self.valid_until.retain(|_, valid_until| now < *valid_until);
        self.counts.ended += before - self.valid_until.len();
    }

    fn hear(&mut self, operation: u64, message: ServerMessage) {
        self.look();
        match message {
            ServerMessage::Beat(beat) => {
                self.answered.insert(beat.beat, Instant::now());
                self.send(0, ClientMessage::Answer(BeatAnswer { beat: beat.beat }));
            }
            ServerMessage::Acquire(answer) => {
                assert_eq!(answer.outcome(), Outcome::Acquired, "{answer:?}");
                let sent = self.asked.remove(&operation).unwrap();
                let left = read(answer.held_for) + read(answer.lease.unwrap().ttl);
                self.acquired += 1;
                self.valid_until.insert(u32::try_from(operation).unwrap(), sent + left - MARGIN);
            }
            ServerMessage::Attached(attached) => attached.leases.iter().for_each(|leases| {
                let earliest = self.asked.values().min().copied();
                self.extend(leases, earliest.unwrap_or_else(Instant::now));
            }),
            ServerMessage::Renewed(renewed) => {
                let sent = self.answered[&renewed.beat];
                self.counts.slowest = self.counts.slowest.max(sent.elapsed());
                for leases in &renewed.leases {
                    self.counts.renewals += leases.handles.len();
                    self.extend(leases, sent);
                }
            }
            ServerMessage::Lost(_) => self.counts.lost += 1,
            ServerMessage::AtRisk(risk) => self.counts.at_risk += risk.handles.len(),
            other => panic!("{other:?}"),
        }
    }

    /// A lease that has ended stays so.
    fn extend(&mut self, leases: &RenewedLeases, sent: Instant) {
        let valid_until = sent + read(leases.ttl) - MARGIN;
        for handle in &leases.handles {
            if let Some(known) = self.valid_until.get_mut(handle) {
                *known = valid_until.max(*known);
            }
        }
    }
}
