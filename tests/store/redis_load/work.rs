//! Clients that take locks, hold them, renew them and give them back for as long as they are let, through whichever
//! server answers.

use crate::{
    record::{Grant, valid_until},
    support::{read, waiting_request},
};
use fencepost_proto::v1::{self, LeaseEnd, acquire_response::Outcome, lock_service_client::LockServiceClient};
use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tonic::{Code, Response, Status, transport::Channel};

pub(crate) const LOCKS: usize = 4;
const CLIENTS: u64 = 32;
pub(crate) const TTL: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(4);
/// What a call may take beyond its wait: twice two scripts of two tries each, which Redis has half a second each to
/// answer, and the look at a new Redis before; the rest is for a busy machine.
const BEYOND_MAX: Duration = Duration::from_secs(8);
/// How long a client stays with a request that is refused.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY_DELAY: Duration = Duration::from_millis(100);

type Client = LockServiceClient<Channel>;

/// What all clients write down.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) grants: Mutex<Vec<Grant>>,
    /// What should never have happened.
    pub(crate) wrong: Mutex<Vec<String>>,
    /// Calls that were refused for now.
    pub(crate) refused: Mutex<usize>,
    pub(crate) longest: Mutex<Duration>,
}

/// Clients at work.
pub(crate) struct Work {
    pub(crate) seen: Arc<Seen>,
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Work {
    pub(crate) fn begin(servers: &[Client; 2]) -> Self {
        let (seen, over) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let clients = (1..=CLIENTS)
            .map(|number| {
                let worker = Worker { servers: servers.clone(), seen: seen.clone(), chance: Chance(number) };
                tokio::spawn(worker.work(over.clone()))
            })
            .collect();
        Self { seen, over, clients }
    }

    /// The locks of which a request that was made after this moment got a grant.
    pub(crate) fn locks_since(&self, moment: Instant) -> usize {
        let grants = self.seen.grants.lock().unwrap();
        (0..LOCKS).filter(|lock| grants.iter().any(|it| it.lock == *lock && it.returned > moment)).count()
    }

    /// Lets the clients finish what they do.
    pub(crate) async fn end(self) -> Arc<Seen> {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        self.seen
    }
}

/// Numbers without a pattern, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What a client does with a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Waits for it, holds it for milliseconds, gives it back.
    Works,
    /// The same, if it is free.
    Tries,
    /// Holds it for a while, and renews.
    Renews,
    /// Is gone with it.
    Dies,
}

struct Worker {
    servers: [Client; 2],
    seen: Arc<Seen>,
    chance: Chance,
}

impl Worker {
    async fn work(mut self, over: Arc<AtomicBool>) {
        while !over.load(Ordering::Relaxed) {
            let lock = usize::try_from(self.chance.below(LOCKS as u64)).unwrap();
            match self.chance.below(100) {
                0..4 => self.walk_away(lock).await,
                4 => self.take_and_hold(lock, Kind::Dies).await,
                5..7 => self.take_and_hold(lock, Kind::Renews).await,
                7..20 => self.take_and_hold(lock, Kind::Tries).await,
                _ => self.take_and_hold(lock, Kind::Works).await,
            }
        }
    }

    /// Asks, and is gone before the answer.
    async fn walk_away(&mut self, lock: usize) {
        let request = waiting_request(&name(lock), TTL, WAIT);
        let patience = Duration::from_millis(self.chance.below(40));
        let _ = tokio::time::timeout(patience, self.servers[0].acquire(request)).await;
    }

    async fn take_and_hold(&mut self, lock: usize, kind: Kind) {
        let wait = if kind == Kind::Tries { Duration::ZERO } else { WAIT };
        let invoked = Instant::now();
        let Some((sent, answer)) = self.ask(waiting_request(&name(lock), TTL, wait)).await else { return };
        let returned = Instant::now();
        match answer.outcome() {
            Outcome::Acquired => {}
            Outcome::TimedOut if !wait.is_zero() => return,
            Outcome::Contended if wait.is_zero() => return,
            other => return self.wrong(format!("{other:?} for a wait of {wait:?}")),
        }
        let lease = answer.lease.unwrap();
        // A grant that is no longer valid on arrival is no lock: it ends as it arrives.
        let (token, ttl, mut ends) = (lease.fencing_token, read(lease.ttl), returned);
        let mut until = valid_until(sent, read(answer.held_for), ttl);
        if until > returned {
            ends = self.hold(&lease, kind, &mut until).await;
        }
        self.seen.grants.lock().unwrap().push(Grant { lock, token, invoked, returned, ends });
        if kind != Kind::Dies {
            self.release(&lease).await;
        }
    }

    /// Works under a lease. Answers when it stopped to.
    async fn hold(&mut self, lease: &v1::Lease, kind: Kind, until: &mut Instant) -> Instant {
        match kind {
            // It acts to the last moment as far as anybody knows.
            Kind::Dies => return *until,
            Kind::Renews => {
                sleep(TTL / 4).await;
                let sent = Instant::now();
                let renew = v1::RenewRequest {
                    lock_name: lease.lock_name.clone(),
                    lease_id: lease.lease_id.clone(),
                    ..v1::RenewRequest::default()
                };
                let mut client = self.servers[usize::try_from(self.chance.below(2)).unwrap()].clone();
                let renewed = self.timed(Duration::ZERO, client.renew(renew)).await;
                match renewed.map(Response::into_inner) {
                    // Told in time that it is lost, the holder stops.
                    Some(lost) if lost.outcome() == v1::renew_response::Outcome::Lost => {
                        return Instant::now().min(*until);
                    }
                    Some(it) => *until = valid_until(sent, read(it.held_for), read(it.ttl)).max(*until),
                    None => {}
                }
                sleep(TTL / 4).await;
            }
            Kind::Works | Kind::Tries => sleep(Duration::from_millis(self.chance.below(20))).await,
        }
        Instant::now().min(*until)
    }

    async fn release(&mut self, lease: &v1::Lease) {
        let begun = Instant::now();
        let first = self.chance.below(2);
        for server in first.. {
            let release = v1::ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
            let mut client = self.servers[usize::try_from(server % 2).unwrap()].clone();
            match self.timed(Duration::ZERO, client.release(release)).await {
                Some(answer) => match answer.into_inner().end() {
                    LeaseEnd::Revoked => return self.wrong("a lease was revoked by nobody".into()),
                    _ => return,
                },
                None if begun.elapsed() > PATIENCE => return,
                None => sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Asks, here and there in turn, until there is an outcome or too much was refused. With it, when what was answered
    /// was sent.
    async fn ask(&mut self, mut request: v1::AcquireRequest) -> Option<(Instant, v1::AcquireResponse)> {
        let (begun, first) = (Instant::now(), self.chance.below(2));
        let wait = read(request.wait_timeout);
        for server in first.. {
            let sent = Instant::now();
            let mut client = self.servers[usize::try_from(server % 2).unwrap()].clone();
            if let Some(answer) = self.timed(wait, client.acquire(request.clone())).await {
                return Some((sent, answer.into_inner()));
            }
            if begun.elapsed() > PATIENCE {
                return None;
            }
            request.attempt += 1;
            sleep(RETRY_DELAY).await;
        }
        None
    }

    /// A call's answer, if it was not refused for now; in time, and refused with a word that says what to do.
    async fn timed<T>(&self, wait: Duration, call: impl Future<Output = Result<T, Status>>) -> Option<T> {
        let begun = Instant::now();
        let answer = tokio::time::timeout(wait + BEYOND_MAX, call).await;
        let took = begun.elapsed().saturating_sub(wait);
        let mut longest = self.seen.longest.lock().unwrap();
        *longest = took.max(*longest);
        match answer {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(status)) if [Code::Unavailable, Code::Aborted, Code::ResourceExhausted].contains(&status.code()) => {
                *self.seen.refused.lock().unwrap() += 1;
            }
            Ok(Err(status)) => self.wrong(format!("refused without use: {status:?}")),
            Err(_) => self.wrong(format!("no answer in {wait:?} and {BEYOND_MAX:?} more")),
        }
        None
    }

    fn wrong(&self, what: String) {
        self.seen.wrong.lock().unwrap().push(what);
    }
}

pub(crate) fn name(lock: usize) -> String {
    format!("load/{lock}")
}
