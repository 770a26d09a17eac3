//! What the parts cost by themselves, without a network: the rules, the memory store, the reading of what Redis
//! answers, what servers send each other. `cargo bench --bench parts`; Criterion keeps the last run below
//! target/criterion and says what changed.
#![allow(clippy::unwrap_used, missing_docs, reason = "it says what is wrong by failing")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use fencepost::testing::{
    access::{Access, Connection, NewToken, Verb},
    clock::{Clock, ProcessClock},
    domain::{
        command::{Acquire, Candidate, Command, Effects, Outcome},
        ids::{Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::Terms,
        limits::Limits,
        mode::ModeName,
        name::{Holder, LockName, Metadata},
        outcome::{AcquireOutcome, Grant},
        replicas::Replicas,
        rules::{Lock, Turn},
        time::StoreTime,
        token::{FencingToken, Sequencer},
    },
    locks::Hub,
    store::{
        Store as _,
        memory::MemoryStore,
        quorum::{
            paxos::ballot::{Ballot, ServerId},
            rpc::messages::{Done, Frame, Parcel, Work, parcels},
        },
    },
};
use std::{future::Future, hint::black_box, pin::pin, sync::Arc, task::Context, time::Duration};
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(30);
const NOW: u64 = 1_795_000_000_000_000;

fn wish(number: u128, wait: bool) -> Acquire {
    let holder = Holder::new("host-17:worker-4".into()).unwrap();
    let terms = Terms {
        fingerprint: 7,
        ttl: TTL,
        holder,
        metadata: Metadata::default(),
        min_token: 0,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    Acquire { call: call(number), terms, wait, candidate: candidate(number) }
}

fn call(number: u128) -> Call {
    Call { request: RequestId(Uuid::from_u128(number)), attempt: 1, id: CallId(1) }
}

fn candidate(number: u128) -> Candidate {
    let (lease_id, grant_id) = (LeaseId(Uuid::from_u128(number)), GrantId(Uuid::from_u128(!number)));
    Candidate { lease_id, grant_id, attachment: None }
}

/// One lock, with time that goes on by a millisecond from command to command.
struct One {
    lock: Lock,
    sequencer: Sequencer,
    replicas: Replicas,
    effects: Effects,
    now: u64,
    made: u128,
}

impl One {
    fn new() -> Self {
        let (lock, sequencer, replicas) = (Lock::default(), Sequencer::after(NOW), Replicas::one());
        Self { lock, sequencer, replicas, effects: Effects::new(), now: NOW, made: 0 }
    }

    fn run(&mut self, command: Command) -> Outcome {
        self.now += 1_000;
        self.effects.clear();
        let now = StoreTime::from_micros(self.now);
        let mut turn = Turn {
            lock: &mut self.lock,
            sequencer: &mut self.sequencer,
            effects: &mut self.effects,
            now,
            replica: ReplicaId(Uuid::from_u128(2)),
            replicas: &self.replicas,
            waiters_max: 100_000,
            classic: None,
        };
        turn.run(command)
    }

    fn acquire(&mut self, wait: bool) -> Outcome {
        self.made += 1;
        self.run(Command::Acquire(wish(self.made, wait)))
    }

    fn release(&mut self, lease: u128) {
        black_box(self.run(Command::Release(LeaseId(Uuid::from_u128(lease)))));
    }

    /// Held, and with a line of this length.
    fn with_line(waiters: u128) -> Self {
        let mut one = Self::new();
        (0..=waiters).for_each(|_| drop(one.acquire(true)));
        one
    }
}

fn rules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rules");
    let mut one = One::new();
    group.bench_function("acquire and release", |bencher| {
        bencher.iter(|| {
            assert!(matches!(one.acquire(false), Outcome::Acquire(AcquireOutcome::Granted(_))));
            one.release(one.made);
        });
    });
    let mut one = One::with_line(0);
    group.bench_function("renew", |bencher| {
        bencher.iter(|| one.run(Command::Renew { lease_id: LeaseId(Uuid::from_u128(1)), ttl: None }));
    });
    for line in [1, 100, 10_000] {
        // Whoever is served goes to the end of the line again, which keeps its length.
        let (mut one, mut holder) = (One::with_line(line), 1);
        group.bench_function(format!("hand-off, {line} in line"), |bencher| {
            bencher.iter(|| {
                one.release(holder);
                holder += 1;
                let served = one.run(Command::Claim(call(holder), candidate(holder)));
                assert!(matches!(served, Outcome::Acquire(AcquireOutcome::Granted(_))));
                assert!(matches!(one.acquire(true), Outcome::Acquire(AcquireOutcome::Queued)));
            });
        });
    }
    group.finish();
}

/// Commands of the memory store are answered when they are first asked.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("the memory store waits for nothing"),
    }
}

fn memory_store(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memory store");
    for held in [0, 1_000, 1_000_000_u128] {
        let clock: Arc<dyn Clock> = Arc::new(ProcessClock::start());
        let store = MemoryStore::new(clock, &Limits::default(), Arc::new(Hub::new()));
        let name = |number: u128| LockName::new(format!("orders/{number:08}")).unwrap();
        for number in 0..held {
            let outcome = now(store.run(&name(number), Command::Acquire(wish(number + 1, false)))).unwrap().outcome;
            assert!(matches!(outcome, Outcome::Acquire(AcquireOutcome::Granted(_))));
        }
        let (own, mut made) = (name(held), held + 1);
        group.bench_function(format!("acquire and release, {held} locks held"), |bencher| {
            bencher.iter(|| {
                made += 1;
                now(store.run(&own, Command::Acquire(wish(made, false)))).unwrap();
                now(store.run(&own, Command::Release(LeaseId(Uuid::from_u128(made))))).unwrap()
            });
        });
    }
    group.finish();
}

/// What an acquire costs beyond the leader's work if another server forwards it.
fn frames() -> [(&'static str, Frame); 3] {
    let (now, number) = (StoreTime::from_micros(NOW), 1_000_000);
    let forward = |command| {
        let work = Work::Run(LockName::new("orders/00000042").unwrap(), command);
        let ballot = Ballot { round: 300, server: ServerId([7; 12]) };
        Frame::Forward { number, partition: 17, ballot, not_after: now, work }
    };
    let Candidate { lease_id, grant_id, .. } = candidate(1);
    let token = FencingToken::new(NOW).unwrap();
    let grant =
        Grant { lease_id, grant_id, token, left: TTL, previous_end: None, slot: None, mode: ModeName::Exclusive };
    let outcome = Outcome::Acquire(AcquireOutcome::Granted(grant));
    [
        ("an acquire", forward(Command::Acquire(wish(1, true)))),
        ("a release", forward(Command::Release(lease_id))),
        ("a grant", Frame::Reply { number, now, result: Ok(Done::Outcome { outcome, queue_position: 0, ahead: 0 }) }),
    ]
}

fn parcels_of_frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parcels");
    let from = ServerId([7; 12]);
    for (what, frame) in frames() {
        for count in [1, 32] {
            let all = vec![frame.clone(); count];
            group.bench_function(format!("pack {what}, {count} together"), |bencher| {
                bencher.iter_batched(|| all.clone(), |all| parcels(from, all), BatchSize::SmallInput);
            });
            let packed = parcels(from, all.clone()).remove(0);
            group.bench_function(format!("read {what}, {count} together"), |bencher| {
                bencher.iter(|| Parcel::decode(black_box(&packed)).unwrap());
            });
        }
    }
    group.finish();
}

/// What the access file costs an operation: whose token it is, and whether a rule permits the lock.
fn access_rules(criterion: &mut Criterion) {
    let (folder, made) = (tempfile::tempdir().unwrap(), NewToken::make().unwrap());
    let locks: Vec<String> = (0..100).map(|number| format!("team-{number:02}/")).collect();
    let text = format!(
        "mode = \"enforce\"\n[[token]]\nname = \"app\"\nsha256 = \"{}\"\n[[rule]]\nwho = [\"app\"]\n\
         may = [\"acquire\"]\nlocks = {locks:?}\n",
        made.sha256
    );
    let path = folder.path().join("access.toml");
    std::fs::write(&path, text).unwrap();
    let connection = Connection::new(Arc::new(Access::load(path).unwrap()), None, None);
    let authorization = format!("Bearer {}", made.token);
    let mut group = criterion.benchmark_group("access");
    group.bench_function("the same token again, a lock of 100 prefixes", |bencher| {
        bencher.iter(|| {
            let credentials = connection.credentials(Some(black_box(authorization.as_bytes())));
            let identity = credentials.verdict().identity.unwrap();
            assert!(identity.grants.permit_lock(Verb::Acquire, black_box("team-42/orders/00001234")));
        });
    });
    group.bench_function("an operation of a session", |bencher| {
        let credentials = connection.credentials(Some(authorization.as_bytes()));
        bencher.iter(|| {
            let identity = credentials.verdict().identity.unwrap();
            assert!(identity.grants.permit_lock(Verb::Acquire, black_box("team-42/orders/00001234")));
        });
    });
}

criterion_group!(parts, rules, memory_store, parcels_of_frames, access_rules);
criterion_main!(parts);
