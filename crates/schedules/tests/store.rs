//! The memory store against its rules: each of several concurrent tasks gets the answer that the rules give when the
//! commands run one after the other, in the order in which the store read its clock for them.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod support;

use fencepost_schedules::{
    check,
    clock::Clock,
    domain::{
        command::{Acquire, Command, Effect, Effects, Outcome},
        ids::{Call, CallId, LeaseId},
        limits::Limits,
        name::LockName,
        replicas::Replicas,
        rules::{Lock, Turn},
        time::{StoreTime, micros},
        token::Sequencer,
    },
    store::{EventKind, MemoryStore, Store as _},
    sync::point,
    task::{block_on, spawn},
    time::START,
};
use shuttle::{
    current,
    rand::{Rng, thread_rng},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{EventRecorder, candidate, name, request, terms};
use uuid::Uuid;

const TASKS: usize = 3;
const COMMANDS: usize = 5;
const LOCKS: [&str; 2] = ["a", "b"];
const TTL: Duration = Duration::from_secs(2);
const WAITERS_MAX: usize = 2;

/// A clock that returns a different time on each read, and records the task that read it: within a shard that is the
/// order of the commands.
#[derive(Default)]
struct StampClock(Mutex<(u64, HashMap<current::TaskId, Vec<StoreTime>>)>);

impl StampClock {
    fn advance(&self, span: Duration) {
        point();
        self.0.lock().unwrap().0 += micros(span);
    }

    /// The times that the current task has read since its last call of this.
    fn seen(&self) -> Vec<StoreTime> {
        self.0.lock().unwrap().1.remove(&current::me()).unwrap_or_default()
    }
}

impl Clock for StampClock {
    fn now(&self) -> StoreTime {
        point();
        let mut inner = self.0.lock().unwrap();
        inner.0 += 1;
        let now = START.after(Duration::from_micros(inner.0));
        inner.1.entry(current::me()).or_default().push(now);
        now
    }
}

/// A command, or a visit of the expiry task.
type Step = Option<Command>;

struct Executed {
    at: StoreTime,
    lock: LockName,
    step: Step,
    outcome: Outcome,
}

/// A random command, on requests and leases that other tasks use too.
fn some_command(serial: u128) -> Command {
    let mut random = thread_rng();
    let (request, attempt) = (request(random.gen_range(1..=3)), random.gen_range(1..=2));
    let call = Call { request, attempt, id: CallId(random.gen_range(1..=2)) };
    // A lease has the number of the command that was granted it.
    let lease = LeaseId(Uuid::from_u128(random.gen_range(1..=(TASKS * COMMANDS) as u128)));
    let candidate = candidate(serial);
    match random.gen_range(0..10) {
        0..=3 => Command::Acquire(Acquire { call, terms: terms(TTL), wait: random.gen_bool(0.7), candidate }),
        4..=5 => Command::Claim(call, candidate),
        6 => Command::GiveUp(call),
        7 => Command::DropCall(call),
        8 => Command::Release(lease),
        _ => Command::Renew { lease_id: lease, ttl: None },
    }
}

/// The store, and the commands that were executed.
struct Recorded {
    store: MemoryStore,
    clock: Arc<StampClock>,
    done: Mutex<Vec<Executed>>,
}

impl Recorded {
    async fn execute(&self, lock: LockName, command: Command) {
        let outcome = self.store.run(&lock, command.clone()).await.unwrap().outcome;
        let [at] = self.clock.seen()[..] else { panic!("a command has one time") };
        self.done.lock().unwrap().push(Executed { at, lock, step: Some(command), outcome });
    }

    /// Lets the store handle its due timers, and returns whether anything was.
    fn apply_time(&self) -> bool {
        assert!(!self.store.apply_due_timers(), "all in one batch");
        // It reads the clock before it locks a shard that seems due, and again afterwards.
        let [_, ref at @ ..] = self.clock.seen()[..] else { panic!("it reads the clock") };
        for lock in LOCKS.map(name) {
            let applied = |at: &StoreTime| Executed { at: *at, lock: lock.clone(), step: None, outcome: Outcome::Done };
            self.done.lock().unwrap().extend(at.iter().map(applied));
        }
        !at.is_empty()
    }
}

fn execute_by_rules(turn: &mut Turn<'_>, step: &Step) -> Outcome {
    match step {
        Some(command) => turn.run(command.clone()),
        None => {
            turn.apply_time();
            Outcome::Done
        }
    }
}

/// One shard according to the rules alone.
struct Model {
    locks: HashMap<LockName, Lock>,
    sequencer: Sequencer,
    /// Grants and ends of each lock.
    events: HashMap<LockName, Vec<(bool, u64)>>,
}

impl Model {
    fn turn<R>(&mut self, name: &LockName, now: StoreTime, act: impl FnOnce(&mut Turn<'_>) -> R) -> R {
        let mut lock = self.locks.remove(name).unwrap_or_default();
        let mut effects = Effects::new();
        let answer = act(&mut Turn {
            lock: &mut lock,
            sequencer: &mut self.sequencer,
            effects: &mut effects,
            now,
            replica: fencepost_schedules::domain::ids::ReplicaId(Uuid::nil()),
            replicas: &Replicas::one(),
            waiters_max: WAITERS_MAX,
            classic: None,
        });
        let events = self.events.entry(name.clone()).or_default();
        for effect in effects {
            match effect {
                Effect::Granted(token) => events.push((true, token.get())),
                Effect::Ended { lease, .. } => events.push((false, lease.token.get())),
                _ => {}
            }
        }
        if !lock.is_idle() {
            self.locks.insert(name.clone(), lock);
        }
        answer
    }
}

/// Seeded mutants that it finds: the clock is read before the shard is locked; the shard is unlocked between finding a
/// slot and using it; a lock is stored in a second slot; a lock in use is considered idle; timers are handled with an
/// older time.
#[test]
fn concurrent_commands_have_the_outcome_of_the_rules_in_some_order() {
    check(|| {
        block_on(async {
            let (clock, recorder) = (Arc::new(StampClock::default()), Arc::new(EventRecorder::default()));
            let limits = Limits { waiters_per_lock: WAITERS_MAX, ..Limits::default() };
            let store = MemoryStore::with_shards(1, clock.clone(), &limits, recorder.clone());
            let [start] = clock.seen()[..] else { panic!("it reads the clock once") };
            let recorded = Arc::new(Recorded { store, clock: clock.clone(), done: Mutex::default() });
            let tasks = [0, 1, 2].map(|task: usize| {
                let recorded = recorded.clone();
                spawn(async move {
                    for number in 0..COMMANDS {
                        let lock = name(LOCKS[thread_rng().gen_range(0..LOCKS.len())]);
                        recorded.execute(lock, some_command((1 + task * COMMANDS + number) as u128)).await;
                    }
                })
            });
            let time = spawn({
                let recorded = recorded.clone();
                async move {
                    // Longer than a mark, a lease, an offer, and the memory of an ended request.
                    for span in [600, 2_000, 3_100, 10_100] {
                        if thread_rng().gen_bool(0.5) {
                            recorded.clock.advance(Duration::from_millis(span));
                        }
                        recorded.apply_time();
                    }
                }
            });
            for task in tasks {
                task.await.unwrap();
            }
            time.await.unwrap();
            // Each round unbinds all calls of each request, and lets the rest expire.
            for _ in 0..TASKS * COMMANDS {
                for (lock, call) in every_call() {
                    recorded.execute(lock, Command::GiveUp(call)).await;
                }
                clock.advance(Duration::from_secs(60));
                while recorded.apply_time() {}
                let left = recorded.store.list("", None, 1).await.unwrap().locks;
                clock.seen();
                if left.is_empty() {
                    break;
                }
            }
            clock.advance(Duration::from_secs(60));
            while recorded.apply_time() {}
            clock.advance(Duration::from_secs(24 * 60 * 60));
            assert!(!recorded.apply_time(), "no timer is left");
            compare(start, &mut recorded.done.lock().unwrap(), &recorder);
        });
    });
}

fn every_call() -> impl Iterator<Item = (LockName, Call)> {
    let of_request = |number| [(1, 1), (1, 2), (2, 1), (2, 2)].map(|it| (request(number), it));
    let calls = (1..=3).flat_map(of_request).map(|(request, (attempt, id))| Call { request, attempt, id: CallId(id) });
    calls.flat_map(|call| LOCKS.map(|lock| (name(lock), call)))
}

/// `start` is the time at which the store was made.
fn compare(start: StoreTime, done: &mut [Executed], recorder: &EventRecorder) {
    done.sort_by_key(|one| one.at);
    let sequencer = Sequencer::above_clock(start);
    let mut model = Model { locks: HashMap::new(), sequencer, events: HashMap::new() };
    for Executed { at, lock, step, outcome } in done.iter() {
        let expected = model.turn(lock, *at, |turn| execute_by_rules(turn, step));
        assert_eq!(*outcome, expected, "{step:?} of {lock:?} at {at:?}");
    }
    for lock in LOCKS.map(name) {
        let events = recorder.events.lock();
        let events: Vec<_> = events
            .iter()
            .filter(|event| event.name == lock)
            .map(|event| (event.kind == EventKind::Granted, event.token.get()))
            .collect();
        assert_eq!(events, model.events.remove(&lock).unwrap_or_default(), "events of {lock:?}");
        let grants: Vec<_> = events.iter().filter(|(granted, _)| *granted).map(|(_, token)| *token).collect();
        assert!(grants.is_sorted_by(|one, next| one < next), "tokens rise: {grants:?}");
        for (index, (granted, token)) in events.iter().enumerate() {
            assert_eq!(*granted, index % 2 == 0, "one holder at a time");
            assert!(*granted || events[index - 1].1 == *token, "the granted lease ends");
        }
    }
    assert!(model.locks.is_empty(), "all locks are idle");
}
