//! The state of the model: clients, server replicas, the store, messages in flight, and the ghost state.

use super::{
    ghost::Ghost,
    store::{Attempt, NextCalls, START, Store, StoreCommand},
};
use fencepost::testing::domain::time::StoreTime;
use std::time::Duration;

/// How many faults of each kind a configuration still allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Lost messages.
    pub(crate) losses: u8,
    /// Ticks while a message is in flight or a beat is due.
    pub(crate) delays: u8,
    /// Calls, renewals, releases and cleanups that arrive twice.
    pub(crate) repeats: u8,
    /// Crashes of server replicas.
    pub(crate) crashes: u8,
    /// Replicas that the store finds dead, whether they are or not.
    pub(crate) suspicions: u8,
    /// Half-minutes without any event.
    pub(crate) leaps: u8,
    /// Restarts of the store, which forgets everything.
    pub(crate) restarts: u8,
    /// A bound on time, for configurations whose states include tokens.
    pub(crate) ticks: Option<u8>,
}

/// A client, which acquires the lock several times.
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
    StoreCommand {
        attempt: u32,
        /// Its call has failed and needs no cancellation.
        failed: bool,
        replica: u8,
    },
    /// The client believes that it holds the lock until then.
    Holding {
        until: StoreTime,
    },
}

/// A server replica. Its only state is its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) alive: bool,
    pub(crate) calls: Vec<Call>,
    pub(crate) beat_due: bool,
    /// A hint to it was lost, or its waiters may have been skipped: it finds out with its next beat.
    pub(crate) misses: bool,
}

impl Replica {
    /// The calls that a release may hand over to: queued ones, each the only call of its attempt.
    pub(crate) fn next(&self) -> NextCalls {
        let is_only = |call: &&Call| self.calls.iter().filter(|other| other.attempt == call.attempt).count() == 1;
        let mut calls = self.calls.iter().filter(|call| call.queued).filter(is_only);
        [(); 2].map(|()| calls.next().map(|call| (call.attempt, call.copy)))
    }
}

/// A call at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) attempt: Attempt,
    /// The number of the call within its attempt: a proxy may repeat a call.
    pub(crate) copy: u8,
    /// When its client sent it, and when it arrived.
    pub(crate) sent: StoreTime,
    pub(crate) arrived: StoreTime,
    /// When the command in flight was sent; `None` while the call waits in the queue.
    pub(crate) awaiting_since: Option<StoreTime>,
    /// The store has queued it.
    pub(crate) queued: bool,
    /// A hint arrived while a command was in flight.
    pub(crate) hinted: bool,
}

/// The reply to a call, for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    /// When the validity of the lease begins (on the client's clock), and how long it lasts.
    Acquired {
        from: StoreTime,
        left: u64,
    },
    /// The request has ended, or the lock is held and the request does not wait.
    Over,
    TimedOut,
    /// The outcome is unknown, or the client may retry.
    Failed,
}

/// The outcome of a command, for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallOutcome {
    Queued,
    Granted {
        left: u64,
    },
    TimedOut,
    Ended,
    /// The call has failed, without cleanup.
    Failed,
    /// The command was too late. The queued request needs a cleanup.
    TooLate,
}

/// A message in flight. Messages may arrive in any order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Message {
    /// A client's call to a replica.
    Call {
        to: u8,
        attempt: Attempt,
        copy: u8,
        sent: StoreTime,
    },
    /// The client of a call has gone.
    Cancel {
        to: u8,
        attempt: Attempt,
    },
    /// A command to the store. `copy` is the call that awaits the answer, if one does.
    ToStore {
        command: StoreCommand,
        copy: Option<u8>,
        sent: StoreTime,
    },
    /// An answer of the store, with the hints of the command for this replica.
    FromStore {
        to: u8,
        attempt: Attempt,
        copy: u8,
        outcome: CallOutcome,
        hints: Vec<Attempt>,
    },
    /// The outcome of a claim by a release that was sent at `sent`.
    HandOver {
        to: u8,
        attempt: Attempt,
        copy: u8,
        outcome: CallOutcome,
        sent: StoreTime,
    },
    /// A hint of the store to another replica.
    Hint {
        to: u8,
        attempt: Attempt,
    },
    Reply {
        attempt: Attempt,
        reply: Reply,
    },
    /// The answer to a renewal: when the renewal was sent, and the time left.
    Renewed {
        request: u8,
        from: StoreTime,
        left: u64,
    },
    Released {
        request: u8,
    },
}

/// A state of the model.
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

/// The request numbers of each client.
pub(crate) const REQUESTS_PER_CLIENT: u8 = 4;

impl State {
    pub(crate) fn new(clients: u8, replicas: u8, renewals: u8, budget: Budget) -> Self {
        let replica = Replica { alive: true, calls: vec![], beat_due: false, misses: false };
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

    /// The current request of a client.
    pub(crate) fn request_of(&self, client: usize) -> u8 {
        u8::try_from(client).expect("few clients") * REQUESTS_PER_CLIENT + self.clients[client].begun - 1
    }

    /// The client of a request, if it is still the client's current one.
    pub(crate) fn client_of(&self, request: u8) -> Option<usize> {
        let client = usize::from(request / REQUESTS_PER_CLIENT);
        let has_begun = self.clients.get(client).is_some_and(|it| it.begun > 0);
        (has_begun && self.request_of(client) == request).then_some(client)
    }

    /// Whether a lease of this request ended so long ago that its end may be forgotten before a retry arrives. A
    /// request is granted once only if all attempts arrive within 10 s of the end.
    pub(crate) fn ended_long_ago(&self, request: u8) -> bool {
        const NOT_LONG: Duration = Duration::from_secs(8);
        let ended = [self.store.expires(request), self.ghost.ended_at(request)];
        ended.into_iter().flatten().any(|at| self.store.clock(self.now).since(at) > NOT_LONG)
    }

    pub(crate) fn send(&mut self, message: Message) {
        let index = self.network.binary_search(&message).unwrap_or_else(|index| index);
        self.network.insert(index, message);
    }

    /// Whether there are no calls, no messages in flight and no busy clients.
    pub(crate) fn is_quiet(&self) -> bool {
        self.network.is_empty()
            && self.replicas.iter().all(|replica| replica.calls.is_empty())
            && self.clients.iter().all(|client| client.phase == Phase::Idle)
    }
}
