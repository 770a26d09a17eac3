//! How a worker acquires a lock: it waits or tries, retries a request with an unknown outcome, sends the same attempt
//! twice at once, or drops the call at a random time. Clients that count attempts retry through another server; the
//! others retry sooner, and mostly through the same server.

use super::{
    ClientKind, EndSignal,
    caller::{Answer, Caller, Mode, Terms, Transmission},
    held_lease::HeldLease,
    work::StoresClient,
};
use crate::{clock, config, journal, rng::Rng, stores::RequestedStep};
use fencepost_torture::history::{AcquireEnd, PERMIT_LIMIT};
use std::{collections::HashMap, time::Duration};
use tokio::{task::JoinHandle, time::sleep};

/// How long a worker retries an unknown outcome, in addition to the wait. Well within the 10 s that the server
/// remembers requests.
const RETRY_FOR: Duration = Duration::from_secs(4);
/// Longer than the 3 s to which a cleanup shortens a lease, but no longer than the longest lease of other clients, from
/// which checks derive how long a fault has an effect.
const TTL_UNCOUNTED: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    pub(super) caller: Caller,
    pub(super) rng: Rng,
    /// For conversions: of a stream of its own, so that other choices of a seed do not depend on them.
    pub(super) conversions: Rng,
    pub(super) stores: StoresClient,
    ending: EndSignal,
    kind: ClientKind,
    /// The `min_token` of the next request, by lock, after a store has refused a token.
    pub(super) min_tokens: HashMap<String, u64>,
    /// The grant and the token with which it last raised a fence as a reader.
    pub(super) raised: Option<(String, u64)>,
    /// Those of its last write, and the write that would have been the next.
    pub(super) wrote: Option<((String, u64), RequestedStep)>,
}

/// How a request is sent.
enum SendStyle {
    Plain,
    Twice(Duration),
    Dropped(Duration),
}

impl Worker {
    pub(super) fn new(
        caller: Caller,
        (rng, conversions): (Rng, Rng),
        stores: StoresClient,
        ending: EndSignal,
        kind: ClientKind,
    ) -> Self {
        Self { caller, rng, conversions, stores, ending, kind, min_tokens: HashMap::new(), raised: None, wrote: None }
    }

    pub(super) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// The pause between two locks.
    pub(super) async fn think(&mut self) {
        let pause = if self.kind == ClientKind::UnaryCold { self.rng.millis(2, 30) } else { self.rng.millis(5, 90) };
        sleep(pause).await;
    }

    /// Chooses the next request and its wait.
    pub(super) fn choose(&mut self) -> (Terms, Duration) {
        if !self.kind.counts() {
            return self.choose_uncounted();
        }
        let hot = match self.kind {
            ClientKind::UnaryCold => 4,
            ClientKind::Session => 40,
            _ => 75,
        };
        let hot = self.rng.chance(hot);
        let (lock, mode, is_busy) = match (self.rng.below(100), hot) {
            (0..15, _) => (config::mixed(self.rng.below(config::MIXED)), self.mixed_mode(), true),
            (15..30, _) => (config::semaphore(self.rng.below(config::SEMAPHORES)), self.semaphore_mode(), true),
            (_, true) => (config::hot(self.rng.below(config::HOT)), Mode::Exclusive, true),
            (_, false) => (config::cold(self.rng.below(config::COLD)), Mode::Exclusive, false),
        };
        let ttl = Duration::from_millis(self.rng.pick(&[1_000, 1_000, 1_500, 2_000]));
        // Longer than the rest of a dropped call's lease, so that an error that shortens a held lease is found.
        let ttl = if !hot && self.rng.chance(5) { Duration::from_secs(5) } else { ttl };
        let waits = self.rng.chance(if is_busy { 75 } else { 20 });
        let wait = if waits { self.rng.millis(300, 2_500) } else { Duration::ZERO };
        let min_token = self.min_tokens.remove(&lock).unwrap_or(0);
        (Terms { lock, request: self.rng.uuid(), ttl, min_token, mode }, wait)
    }

    fn mixed_mode(&mut self) -> Mode {
        if self.rng.chance(75) { Mode::Shared } else { Mode::Exclusive }
    }

    fn semaphore_mode(&mut self) -> Mode {
        match self.rng.below(100) {
            0..65 => Mode::Permits(1),
            65..85 => Mode::Permits(2),
            85..92 => Mode::Permits(PERMIT_LIMIT),
            _ => Mode::Exclusive,
        }
    }

    /// Mostly a try: if it takes long, it was retried.
    fn choose_uncounted(&mut self) -> (Terms, Duration) {
        let lock = config::repeated(self.rng.below(config::REPEATED));
        let wait = if self.rng.chance(35) { self.rng.millis(300, 2_500) } else { Duration::ZERO };
        let min_token = self.min_tokens.remove(&lock).unwrap_or(0);
        (Terms { lock, request: self.rng.uuid(), ttl: TTL_UNCOUNTED, min_token, mode: Mode::Exclusive }, wait)
    }

    fn style(&mut self, wait: Duration) -> SendStyle {
        match self.rng.below(100) {
            0..6 => SendStyle::Twice(self.rng.millis(0, 30)),
            6..12 if self.rng.chance(50) => SendStyle::Dropped(self.rng.millis(0, 12)),
            6..12 => SendStyle::Dropped(self.rng.millis(0, 20 + u64::try_from(wait.as_millis()).unwrap_or(0))),
            _ => SendStyle::Plain,
        }
    }

    /// Sends the request until it is granted, refused, or its time is over.
    pub(super) async fn acquire(&mut self, terms: &Terms, wait: Duration) -> Option<HeldLease> {
        let wait_until = clock::now() + clock::nanos(wait);
        let until = wait_until + clock::nanos(RETRY_FOR);
        let mut server = self.rng.index(self.caller.servers());
        for attempt in 1..=30 {
            let wait = clock::until(wait_until);
            let style = self.style(wait);
            let attempt = if self.kind.counts() { attempt } else { 1 };
            let plain = Transmission { attempt, server, wait, drop_after: None, cancels: false };
            let answer = match style {
                SendStyle::Plain => self.caller.acquire(terms, plain).await,
                SendStyle::Twice(apart) => self.twice(terms, plain, apart).await,
                SendStyle::Dropped(after) => {
                    let call = Transmission { drop_after: Some(after), cancels: self.rng.chance(50), ..plain };
                    let answer = self.caller.acquire(terms, call).await;
                    if matches!(answer.end, AcquireEnd::Dropped) {
                        self.caller.journal.record(journal::instant_fault("call-dropped", terms.lock.clone()));
                        if self.rng.chance(50) {
                            return None;
                        }
                    }
                    answer
                }
            };
            match (answer.end, answer.lease) {
                (AcquireEnd::Acquired(grant), Some(lease)) => {
                    let held = HeldLease::new(lease, terms, grant.valid_until).with_attachment(answer.attachment);
                    if grant.usable {
                        return Some(held);
                    }
                    // Lost on arrival: never used.
                    self.release(&held).await;
                    return None;
                }
                (AcquireEnd::Unknown(_) | AcquireEnd::Dropped, _) if clock::now() < until && !self.is_ending() => {
                    if self.kind.counts() || self.rng.chance(20) {
                        server += 1 + self.rng.index(self.caller.servers());
                        server %= self.caller.servers();
                    }
                    let pause = if self.kind.counts() { self.rng.millis(5, 120) } else { self.rng.millis(0, 40) };
                    sleep(pause).await;
                }
                _ => return None,
            }
        }
        None
    }

    /// Sends the same attempt twice at once, like a proxy. The first grant counts; the other call continues.
    async fn twice(&mut self, terms: &Terms, first: Transmission, apart: Duration) -> Answer {
        let is_elsewhere = self.kind.counts() || self.rng.chance(25);
        let server = (first.server + usize::from(is_elsewhere)) % self.caller.servers();
        // A proxy with one answer may drop the other call.
        let drop_after = self.rng.chance(30).then_some(first.wait + apart);
        let second = Transmission { server, drop_after, ..first };
        self.caller.journal.record(journal::instant_fault("request-duplicated", terms.lock.clone()));
        let (caller, own) = (self.caller.clone(), terms.clone());
        let mut one = tokio::spawn(async move { caller.acquire(&own, first).await });
        let (caller, own) = (self.caller.clone(), terms.clone());
        let mut other = tokio::spawn(async move {
            sleep(apart).await;
            caller.acquire(&own, second).await
        });
        let (answer, other_call) = tokio::select! {
            answer = &mut one => (answer, other),
            answer = &mut other => (answer, one),
        };
        let unknown =
            Answer { end: AcquireEnd::Unknown("the call panicked".to_owned()), lease: None, attachment: None };
        let answer = answer.unwrap_or(unknown);
        if let AcquireEnd::Acquired(grant) = &answer.end {
            tokio::spawn(ignore(self.caller.clone(), terms.clone(), grant.token, other_call));
            return answer;
        }
        // The other call may be granted: of two calls of an attempt one can lose its connection.
        other_call.await.unwrap_or(answer)
    }

    /// Releases, with retries until the outcome is known, sometimes through two servers at once.
    pub(super) async fn release(&mut self, held: &HeldLease) {
        let first = self.rng.index(self.caller.servers());
        for server in first..first + 4 {
            if self.rng.chance(5) {
                self.caller.journal.record(journal::instant_fault("request-duplicated", held.lease.lock_name.clone()));
                let (one, other) =
                    tokio::join!(self.caller.release(held, server), self.caller.release(held, server + 1));
                if one || other {
                    return;
                }
            } else if self.caller.release(held, server).await {
                return;
            }
            let pause = self.rng.millis(5, 120);
            sleep(pause).await;
        }
    }
}

/// Waits for the other call of an attempt, without using its lease. It is the same grant, unless the store has
/// forgotten the end of the request: then it is lost when its validity ends.
async fn ignore(caller: Caller, terms: Terms, token: u64, other_call: JoinHandle<Answer>) {
    let Ok(Answer { end: AcquireEnd::Acquired(grant), lease: Some(lease), .. }) = other_call.await else { return };
    if grant.token != token && grant.usable {
        let held = HeldLease::new(lease, &terms, grant.valid_until);
        while !held.ended_within(&caller, terms.ttl).await {}
    }
}
