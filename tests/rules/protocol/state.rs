//! All that the future depends on: clients, server replicas, the store, what is on its way, and what was seen so far.

use super::{
    ghost::Ghost,
    store::{Asking, Attempt, NONE_KNOWN, START, Store},
};
use fencepost::domain::time::StoreTime;
use std::time::Duration;

/// What a configuration allows to go wrong, and how often; each fault uses some of it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Messages that get lost.
    pub(crate) losses: u8,
    /// Ticks that pass while something is on its way, or while a poll is overdue.
    pub(crate) delays: u8,
    /// Calls, renewals, releases and cleanups that arrive twice.
    pub(crate) repeats: u8,
    /// Replicas that die.
    pub(crate) crashes: u8,
    /// Half-minutes in which nothing happens at all.
    pub(crate) leaps: u8,
    /// Times that the store is replaced by one that forgot.
    pub(crate) failovers: u8,
    /// Where tokens are told apart by their distance to the clock, time itself is bounded.
    pub(crate) ticks: Option<u8>,
}

/// A client: it wants the lock, holds it, and wants it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// Requests that it has begun.
    pub(crate) begun: u8,
    pub(crate) renewals: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Asking {
        attempt: u32,
        /// Its call has failed: it need not be cancelled.
        failed: bool,
        replica: u8,
    },
    /// Until then it reckons to hold the lock.
    Holding {
        until: StoreTime,
    },
}

/// A server replica. It holds no state but its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) alive: bool,
    pub(crate) calls: Vec<Call>,
    pub(crate) poll_due: bool,
    /// The last poll found fewer waiters than there are here.
    pub(crate) missing: bool,
    pub(crate) known_token: StoreTime,
}

impl Replica {
    /// The call that a release claims for: one that stands in line, and alone of its number.
    pub(crate) fn next(&self) -> Option<(Attempt, u8)> {
        let call = self.calls.iter().find(|call| call.queued)?;
        let others = self.calls.iter().filter(|other| other.attempt == call.attempt).count();
        (others == 1).then_some((call.attempt, call.copy))
    }
}

/// A call that a replica has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) attempt: Attempt,
    /// Which of the calls with this number: a proxy may repeat one.
    pub(crate) copy: u8,
    /// When its client sent it, and when it arrived.
    pub(crate) sent: StoreTime,
    pub(crate) arrived: StoreTime,
    /// When the command was sent whose answer is awaited; none while it stands in line.
    pub(crate) asked: Option<StoreTime>,
    /// The store has said that it stands in line.
    pub(crate) queued: bool,
    /// A hint came while it awaited an answer.
    pub(crate) hinted: bool,
}

/// What a call comes to, for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    /// The time from which the lease's time left counts (on the client's clock), and how long it has left.
    Acquired {
        from: StoreTime,
        left: u64,
    },
    /// The wait ended without the lock, or the request has ended.
    Over,
    TimedOut,
    /// Unknown, or to be tried again.
    Failed,
}

/// What a command of a call came to, for its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Said {
    Queued,
    Granted {
        token: StoreTime,
        left: u64,
    },
    TimedOut,
    Ended,
    /// The call is over, and nothing is to be cleaned up.
    Failed,
    /// The same for a command that came too late: what stands in line is to be taken out.
    TooLate,
}

/// What is on its way. Whatever is, may arrive in any order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Message {
    /// A client's call to a replica.
    Call {
        to: u8,
        attempt: Attempt,
        copy: u8,
        sent: StoreTime,
    },
    /// The connection tells the replica that the call's client has gone.
    Cancel {
        to: u8,
        attempt: Attempt,
    },
    /// To the store; of which call, if an answer is awaited.
    ToStore {
        command: Asking,
        copy: Option<u8>,
        sent: StoreTime,
    },
    /// From the store, with the hints that the command set off for this very replica.
    FromStore {
        to: u8,
        attempt: Attempt,
        copy: u8,
        said: Said,
        hints: Vec<Attempt>,
        returned: bool,
    },
    /// What was claimed for a call by the release that was sent then.
    HandedOver {
        to: u8,
        attempt: Attempt,
        copy: u8,
        said: Said,
        sent: StoreTime,
    },
    /// The store's hint to another replica.
    Hint {
        to: u8,
        attempt: Attempt,
    },
    Reply {
        attempt: Attempt,
        reply: Reply,
    },
    /// A renewal's answer: when it was sent, and the time left.
    Renewed {
        request: u8,
        from: StoreTime,
        left: u64,
    },
    Released {
        request: u8,
    },
}

/// Everything.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) now: StoreTime,
    pub(crate) store: Store,
    pub(crate) clients: Vec<Client>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) network: Vec<Message>,
    pub(crate) budget: Budget,
    pub(crate) ghost: Ghost,
}

/// Requests are numbered through, a few for each client.
pub(crate) const REQUESTS_PER_CLIENT: u8 = 4;

impl State {
    pub(crate) fn new(clients: u8, replicas: u8, renewals: u8, budget: Budget) -> Self {
        let replica = Replica { alive: true, calls: vec![], poll_due: false, missing: false, known_token: NONE_KNOWN };
        Self {
            now: StoreTime::from_micros(START),
            store: Store::new(),
            clients: vec![Client { phase: Phase::Idle, begun: 0, renewals }; clients.into()],
            replicas: vec![replica; replicas.into()],
            network: vec![],
            budget,
            ghost: Ghost::default(),
        }
    }

    /// The request that a client is busy with.
    pub(crate) fn request_of(&self, client: usize) -> u8 {
        u8::try_from(client).expect("few clients") * REQUESTS_PER_CLIENT + self.clients[client].begun - 1
    }

    /// The client of a request, if it is still busy with it.
    pub(crate) fn client_of(&self, request: u8) -> Option<usize> {
        let client = usize::from(request / REQUESTS_PER_CLIENT);
        (self.clients[client].begun > 0 && self.request_of(client) == request).then_some(client)
    }

    /// Whether a lease of this request ended so long ago that a further transmission might come when that is forgotten:
    /// the promise of one effect is for those that come within 10 s.
    pub(crate) fn ended_long_ago(&self, request: u8) -> bool {
        const NOT_LONG: Duration = Duration::from_secs(8);
        let lease = self.store.memory.lock.lease().filter(|lease| lease.request.0.as_bytes()[0] == request);
        let unnoticed = lease.is_some_and(|lease| self.store.clock(self.now).since(lease.expires_at) > NOT_LONG);
        unnoticed || self.ghost.ended_at(request).is_some_and(|at| self.store.clock(self.now).since(at) > NOT_LONG)
    }

    pub(crate) fn send(&mut self, message: Message) {
        let place = self.network.binary_search(&message).unwrap_or_else(|place| place);
        self.network.insert(place, message);
    }

    /// Whether nobody does anything and nothing is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.network.is_empty()
            && self.replicas.iter().all(|replica| replica.calls.is_empty())
            && self.clients.iter().all(|client| client.phase == Phase::Idle)
    }
}
