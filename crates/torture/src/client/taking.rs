//! How a worker comes by a lock: it waits or tries, repeats a request whose outcome is unknown, sends the same attempt
//! twice at once, or drops the call at a random moment. Clients that count attempts repeat through another server; the
//! others repeat sooner, and mostly through the same server.

use super::{
    ClientKind, End,
    caller::{Answer, Caller, Terms, Transmission},
    holding::Holding,
    work::Stores,
};
use crate::{clock, config, journal, rng::Rng};
use fencepost_torture::history::AcquireEnd;
use std::{collections::HashMap, time::Duration};
use tokio::{task::JoinHandle, time::sleep};

/// For how long a worker repeats what has no known outcome, on top of the wait. Well within the server's memory of 10
/// s.
const REPEAT_FOR: Duration = Duration::from_secs(4);
/// Longer than the 3 s to which a cleanup cuts a lease. No longer than the longest lease of other clients: checks take
/// that for how long a fault has an effect.
const TTL_REPEATED: Duration = Duration::from_secs(5);

pub(super) struct Worker {
    pub(super) caller: Caller,
    pub(super) rng: Rng,
    pub(super) stores: Stores,
    ending: End,
    kind: ClientKind,
    /// What a store said of a lock that it refused, as the next `min_token`.
    pub(super) wishes: HashMap<String, u64>,
}

/// How a request is sent.
enum Style {
    Plain,
    Twice(Duration),
    Dropped(Duration),
}

impl Worker {
    pub(super) fn new(caller: Caller, rng: Rng, stores: Stores, ending: End, kind: ClientKind) -> Self {
        Self { caller, rng, stores, ending, kind, wishes: HashMap::new() }
    }

    pub(super) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Between two locks.
    pub(super) async fn think(&mut self) {
        let pause = if self.kind == ClientKind::UnaryCold { self.rng.millis(2, 30) } else { self.rng.millis(5, 90) };
        sleep(pause).await;
    }

    /// What to take next, and for how long to wait for it.
    pub(super) fn choose(&mut self) -> (Terms, Duration) {
        if !self.kind.counts() {
            return self.choose_repeated();
        }
        let hot = match self.kind {
            ClientKind::UnaryCold => 4,
            ClientKind::Session => 40,
            _ => 75,
        };
        let hot = self.rng.chance(hot);
        let lock =
            if hot { config::hot(self.rng.below(config::HOT)) } else { config::cold(self.rng.below(config::COLD)) };
        let ttl = Duration::from_millis(self.rng.pick(&[1_000, 1_000, 1_500, 2_000]));
        // Longer than what a dropped call leaves, so that it would show if one cut a lease that is held.
        let ttl = if !hot && self.rng.chance(5) { Duration::from_secs(5) } else { ttl };
        let waits = self.rng.chance(if hot { 75 } else { 20 });
        let wait = if waits { self.rng.millis(300, 2_500) } else { Duration::ZERO };
        let min_token = self.wishes.remove(&lock).unwrap_or(0);
        (Terms { lock, request: self.rng.uuid(), ttl, min_token }, wait)
    }

    /// Mostly a try: one that takes long was repeated.
    fn choose_repeated(&mut self) -> (Terms, Duration) {
        let lock = config::repeated(self.rng.below(config::REPEATED));
        let wait = if self.rng.chance(35) { self.rng.millis(300, 2_500) } else { Duration::ZERO };
        let min_token = self.wishes.remove(&lock).unwrap_or(0);
        (Terms { lock, request: self.rng.uuid(), ttl: TTL_REPEATED, min_token }, wait)
    }

    fn style(&mut self, wait: Duration) -> Style {
        match self.rng.below(100) {
            0..6 => Style::Twice(self.rng.millis(0, 30)),
            6..12 if self.rng.chance(50) => Style::Dropped(self.rng.millis(0, 12)),
            6..12 => Style::Dropped(self.rng.millis(0, 20 + u64::try_from(wait.as_millis()).unwrap_or(0))),
            _ => Style::Plain,
        }
    }

    /// Takes it, or not.
    pub(super) async fn take(&mut self, terms: &Terms, wait: Duration) -> Option<Holding> {
        let in_line_until = clock::now() + clock::nanos(wait);
        let until = in_line_until + clock::nanos(REPEAT_FOR);
        let mut server = self.rng.index(self.caller.servers());
        for attempt in 1..=30 {
            let wait = clock::until(in_line_until);
            let style = self.style(wait);
            let attempt = if self.kind.counts() { attempt } else { 1 };
            let plain = Transmission { attempt, server, wait, drop_after: None, cancels: false };
            let answer = match style {
                Style::Plain => self.caller.acquire(terms, plain).await,
                Style::Twice(apart) => self.twice(terms, plain, apart).await,
                Style::Dropped(after) => {
                    let call = Transmission { drop_after: Some(after), cancels: self.rng.chance(50), ..plain };
                    let answer = self.caller.acquire(terms, call).await;
                    if matches!(answer.end, AcquireEnd::Dropped) {
                        self.caller.journal.note(journal::moment("call-dropped", terms.lock.clone()));
                        if self.rng.chance(50) {
                            return None;
                        }
                    }
                    answer
                }
            };
            match (answer.end, answer.lease) {
                (AcquireEnd::Acquired(grant), Some(lease)) => {
                    let holding = Holding::new(lease, terms.ttl, grant.valid_until).kept_by(answer.kept);
                    if grant.usable {
                        return Some(holding);
                    }
                    // Lost on arrival: nothing is done under it.
                    self.give_back(&holding).await;
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

    /// The same attempt twice at once, as a proxy repeats it. The first grant counts; the other call is left to itself.
    async fn twice(&mut self, terms: &Terms, first: Transmission, apart: Duration) -> Answer {
        let is_elsewhere = self.kind.counts() || self.rng.chance(25);
        let server = (first.server + usize::from(is_elsewhere)) % self.caller.servers();
        // A proxy that has one answer drops the other call, or does not care.
        let drop_after = self.rng.chance(30).then_some(first.wait + apart);
        let second = Transmission { server, drop_after, ..first };
        self.caller.journal.note(journal::moment("request-duplicated", terms.lock.clone()));
        let (caller, own) = (self.caller.clone(), terms.clone());
        let mut one = tokio::spawn(async move { caller.acquire(&own, first).await });
        let (caller, own) = (self.caller.clone(), terms.clone());
        let mut other = tokio::spawn(async move {
            sleep(apart).await;
            caller.acquire(&own, second).await
        });
        let (answer, rest) = tokio::select! {
            answer = &mut one => (answer, other),
            answer = &mut other => (answer, one),
        };
        let unknown = Answer { end: AcquireEnd::Unknown("the call panicked".to_owned()), lease: None, kept: None };
        let answer = answer.unwrap_or(unknown);
        if let AcquireEnd::Acquired(grant) = &answer.end {
            tokio::spawn(ignore(self.caller.clone(), terms.ttl, grant.token, rest));
            return answer;
        }
        // Whatever this one says, the other may have it: of two calls of an attempt one can lose its connection.
        rest.await.unwrap_or(answer)
    }

    /// Releases, repeatedly until the outcome is known, sometimes through two servers at once.
    pub(super) async fn give_back(&mut self, holding: &Holding) {
        let first = self.rng.index(self.caller.servers());
        for server in first..first + 4 {
            if self.rng.chance(5) {
                self.caller.journal.note(journal::moment("request-duplicated", holding.lease.lock_name.clone()));
                let (one, other) = tokio::join!(
                    self.caller.release(&holding.lease, server),
                    self.caller.release(&holding.lease, server + 1)
                );
                if one || other {
                    return;
                }
            } else if self.caller.release(&holding.lease, server).await {
                return;
            }
            let pause = self.rng.millis(5, 120);
            sleep(pause).await;
        }
    }
}

/// Whatever the other call of an attempt comes to, nothing is done under it. It is the same grant, unless the store has
/// forgotten that the request had ended: then it is lost when its time is over.
async fn ignore(caller: Caller, ttl: Duration, token: u64, rest: JoinHandle<Answer>) {
    let Ok(Answer { end: AcquireEnd::Acquired(grant), lease: Some(lease), .. }) = rest.await else { return };
    if grant.token != token && grant.usable {
        let holding = Holding::new(lease, ttl, grant.valid_until);
        while !holding.over_within(&caller, ttl).await {}
    }
}
