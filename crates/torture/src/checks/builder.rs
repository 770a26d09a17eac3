//! Builds histories for tests. Times are in milliseconds since the clients started.

use super::{check, index::SECOND};
use crate::{
    history::{
        Acquire, AcquireEnd, Bounds, Convert, ConvertEnd, Fault, Final, Grant, Guarantees, Leftovers, Lost, Nanos,
        Record, Release, ReleaseEnd, Renewed, Revoked, Run,
    },
    nodes::{Kept, Voting},
    steps::{StepKind, StoreStep},
    verdict::{Check, Verdict},
};

/// When the clients start.
pub(crate) const BEGIN: Nanos = 1_000 * SECOND;

/// The TTL of all requests, in milliseconds.
pub(crate) const TTL: u64 = 2_000;

/// The time `ms` milliseconds after the clients started.
pub(crate) fn ms(ms: u64) -> Nanos {
    BEGIN + ms * 1_000_000
}

/// The token number `n`.
pub(crate) fn token(n: u64) -> u64 {
    1_795_000_000_000_000 + n
}

/// A history under construction. Some methods change the record before them.
#[derive(Clone)]
pub(crate) struct HistoryBuilder {
    pub(crate) records: Vec<Record>,
    lock: String,
    later: u64,
}

impl HistoryBuilder {
    pub(crate) fn new() -> Self {
        let run = Run {
            seed: 7,
            topology: "test".into(),
            args: Vec::new(),
            begin: BEGIN,
            end: ms(60_000),
            bounds: Bounds { claim_window: 3 * SECOND, beats: SECOND, slack: SECOND },
        };
        Self { records: vec![Record::Run(run)], lock: "lock".into(), later: 0 }
    }

    fn ms(&self, time: u64) -> Nanos {
        ms(time + self.later)
    }

    fn and(mut self, record: Record) -> Self {
        self.records.push(record);
        self
    }

    /// Switches to another lock.
    pub(crate) fn on(mut self, lock: &str) -> Self {
        self.lock = lock.into();
        self
    }

    /// Delays all records so far.
    pub(crate) fn later(mut self, by: u64) -> Self {
        for record in &mut self.records {
            let times: Vec<&mut Nanos> = match record {
                Record::Acquire(one) => {
                    if let AcquireEnd::Acquired(grant) = &mut one.end {
                        grant.valid_until += by * 1_000_000;
                    }
                    vec![&mut one.invoke, &mut one.ret]
                }
                Record::Release(one) => vec![&mut one.invoke, &mut one.ret],
                Record::Convert(one) => vec![&mut one.invoke, &mut one.ret],
                Record::Renewed(one) => vec![&mut one.sent, &mut one.at, &mut one.valid_until],
                Record::Lost(one) => vec![&mut one.at],
                Record::Revoked(one) => vec![&mut one.invoke, &mut one.ret],
                Record::Store(one) => vec![&mut one.at],
                Record::Fault(one) => vec![&mut one.begin, &mut one.end],
                Record::Kept(one) => vec![&mut one.at],
                Record::Voting(one) => vec![&mut one.healed, &mut one.at],
                Record::Run(_) | Record::Final(_) | Record::Leftovers(_) => Vec::new(),
            };
            times.into_iter().for_each(|time| *time += by * 1_000_000);
        }
        self
    }

    /// A transmission that was granted, the first of its request. The grant is made when it returns; its id is `g{n}`.
    pub(crate) fn granted(self, client: u32, request: &str, (invoke, ret): (u64, u64), n: u64) -> Self {
        let grant = Grant {
            token: token(n),
            grant: format!("g{n}"),
            valid_until: self.ms(ret + TTL * 94 / 100),
            held_for: (ret - invoke) * 1_000_000,
            left: TTL * 1_000_000,
            slot: 0,
            usable: true,
        };
        self.ended(client, request, (invoke, ret), AcquireEnd::Acquired(grant))
    }

    /// A transmission with this outcome and a wait of 20 s.
    pub(crate) fn ended(self, client: u32, request: &str, (invoke, ret): (u64, u64), end: AcquireEnd) -> Self {
        let acquire = Acquire {
            client,
            lock: self.lock.clone(),
            request: request.into(),
            attempt: 1,
            server: 0,
            ttl: TTL * 1_000_000,
            wait: 20 * SECOND,
            min_token: 0,
            shared: false,
            permits: 0,
            min_hold: 0,
            lock_delay: 0,
            max_hold: 0,
            invoke: self.ms(invoke),
            ret: self.ms(ret),
            end,
        };
        self.and(Record::Acquire(acquire))
    }

    /// Changes the last Acquire.
    pub(crate) fn acquire(mut self, change: impl FnOnce(&mut Acquire)) -> Self {
        let last = self.records.iter_mut().rev().find_map(|record| match record {
            Record::Acquire(acquire) => Some(acquire),
            _ => None,
        });
        change(last.unwrap());
        self
    }

    /// Makes it a request for a shared lease.
    pub(crate) fn shared(self) -> Self {
        self.acquire(|acquire| acquire.shared = true)
    }

    /// Makes it a request for permits, of which one has this slot.
    pub(crate) fn permits(self, permits: u32, slot: u32) -> Self {
        self.acquire(|acquire| acquire.permits = permits).grant(|grant| grant.slot = slot)
    }

    /// Sets its `min_hold`, in milliseconds.
    pub(crate) fn min_hold(self, millis: u64) -> Self {
        self.acquire(|acquire| acquire.min_hold = millis * 1_000_000)
    }

    /// Sets its `lock_delay`, in milliseconds.
    pub(crate) fn lock_delay(self, millis: u64) -> Self {
        self.acquire(|acquire| acquire.lock_delay = millis * 1_000_000)
    }

    /// Sets its `max_hold`, in milliseconds.
    pub(crate) fn max_hold(self, millis: u64) -> Self {
        self.acquire(|acquire| acquire.max_hold = millis * 1_000_000)
    }

    /// Sets its attempt number.
    pub(crate) fn attempt(self, attempt: u32) -> Self {
        self.acquire(|acquire| acquire.attempt = attempt)
    }

    /// Sets its wait.
    pub(crate) fn wait(self, wait: u64) -> Self {
        self.acquire(|acquire| acquire.wait = wait * 1_000_000)
    }

    /// Changes the grant of the last Acquire.
    pub(crate) fn grant(self, change: impl FnOnce(&mut Grant)) -> Self {
        self.acquire(|acquire| match &mut acquire.end {
            AcquireEnd::Acquired(grant) => change(grant),
            other => panic!("no grant: {other:?}"),
        })
    }

    fn release(self, client: u32, n: u64, (invoke, ret): (u64, u64), end: ReleaseEnd) -> Self {
        let (lock, invoke, ret) = (self.lock.clone(), self.ms(invoke), self.ms(ret));
        self.and(Record::Release(Release { client, lock, token: token(n), invoke, ret, end }))
    }

    pub(crate) fn released(self, client: u32, n: u64, span: (u64, u64)) -> Self {
        self.release(client, n, span, ReleaseEnd::Released)
    }

    pub(crate) fn release_unknown(self, client: u32, n: u64, span: (u64, u64)) -> Self {
        self.release(client, n, span, ReleaseEnd::Unknown("UNAVAILABLE".into()))
    }

    /// Makes the lease shared.
    pub(crate) fn downgrade(self, client: u32, n: u64, span: (u64, u64), end: ConvertEnd) -> Self {
        self.convert(client, n, true, span, end)
    }

    pub(crate) fn downgraded(self, client: u32, n: u64, span: (u64, u64)) -> Self {
        self.downgrade(client, n, span, ConvertEnd::Converted(token(n)))
    }

    /// Makes the lease exclusive.
    pub(crate) fn upgrade(self, client: u32, n: u64, span: (u64, u64), end: ConvertEnd) -> Self {
        self.convert(client, n, false, span, end)
    }

    pub(crate) fn upgraded(self, client: u32, n: u64, span: (u64, u64), to: u64) -> Self {
        self.upgrade(client, n, span, ConvertEnd::Converted(token(to)))
    }

    fn convert(self, client: u32, n: u64, shared: bool, (invoke, ret): (u64, u64), end: ConvertEnd) -> Self {
        let (lock, token, invoke, ret) = (self.lock.clone(), token(n), self.ms(invoke), self.ms(ret));
        self.and(Record::Convert(Convert { client, lock, token, shared, invoke, ret, end }))
    }

    pub(crate) fn renewed(self, client: u32, n: u64, (sent, at): (u64, u64), until: u64) -> Self {
        let (lock, sent, at, valid_until) = (self.lock.clone(), self.ms(sent), self.ms(at), self.ms(until));
        self.and(Record::Renewed(Renewed { client, lock, token: token(n), sent, at, valid_until }))
    }

    pub(crate) fn lost(self, client: u32, n: u64, at: u64, cause: &str, successor: Option<u64>) -> Self {
        let (lock, at) = (self.lock.clone(), self.ms(at));
        let successor = successor.map(token);
        self.and(Record::Lost(Lost { client, lock, token: token(n), at, cause: cause.into(), successor }))
    }

    pub(crate) fn revoked(self, n: u64, (invoke, ret): (u64, u64), certain: bool) -> Self {
        let (lock, invoke, ret) = (self.lock.clone(), self.ms(invoke), self.ms(ret));
        self.and(Record::Revoked(Revoked { lock, token: token(n), invoke, ret, certain }))
    }

    pub(crate) fn fault(self, kind: &str, target: &str, (begin, end): (u64, u64), guarantees: Guarantees) -> Self {
        let (begin, end) = (self.ms(begin), self.ms(end));
        self.and(Record::Fault(Fault { kind: kind.into(), target: target.into(), begin, end, guarantees }))
    }

    /// What a voting node kept of partition 3.
    pub(crate) fn kept(self, node: &str, at: u64, batch: &str, content: &str) -> Self {
        let (node, batch, content) = (node.to_owned(), batch.to_owned(), content.to_owned());
        let at = self.ms(at);
        self.and(Record::Kept(Kept { node, partition: 3, at, votes: true, batch, content }))
    }

    pub(crate) fn voting(self, fault: &str, (healed, at): (u64, u64), missing: Option<&str>) -> Self {
        let (healed, at, missing) = (self.ms(healed), self.ms(at), missing.map(str::to_owned));
        self.and(Record::Voting(Voting { fault: fault.to_owned(), healed, at, missing }))
    }

    /// The write or the read of a writer.
    pub(crate) fn step(self, client: u32, n: u64, at: u64, write: bool) -> Self {
        self.step_of(client, n, at, if write { StepKind::Write } else { StepKind::Read })
    }

    /// The first step of a reader.
    pub(crate) fn raise(self, client: u32, n: u64, at: u64) -> Self {
        self.step_of(client, n, at, StepKind::Raise)
    }

    /// Another step of a reader.
    pub(crate) fn check(self, client: u32, n: u64, at: u64) -> Self {
        self.step_of(client, n, at, StepKind::Check)
    }

    /// A step as correct stores would record it: `accepted` and the numbers are computed.
    fn step_of(self, client: u32, n: u64, at: u64, kind: StepKind) -> Self {
        let steps = || {
            self.records.iter().rev().filter_map(|record| match record {
                Record::Store(step) if step.lock == self.lock => Some(step),
                _ => None,
            })
        };
        let (token, grant, lock) = (token(n), format!("g{n}"), self.lock.clone());
        let written = steps().find(|step| step.accepted && !step.kind.is_of_reader());
        let (writer, of) = written.map_or((0, ""), |step| (step.token, &step.grant));
        let raises = steps().filter(|step| step.accepted && step.kind == StepKind::Raise);
        let shared = raises.map(|step| step.token).max().unwrap_or(0);
        let fits_readers = match kind {
            StepKind::Read | StepKind::Write => token > shared,
            StepKind::Raise => true,
            StepKind::Check => token <= shared,
        };
        let accepted = fits_readers && (token > writer || (token == writer && grant == of));
        let last = steps().next();
        let (seq, fenced, control) = last.map_or((0, 0, 0), |step| (step.seq + 1, step.fenced, step.control));
        let read = steps().find(|step| step.token == token && !step.kind.is_of_reader());
        let read = read.map_or(control, |step| step.control);
        let is_write = kind == StepKind::Write;
        let fenced = fenced + u64::from(is_write && accepted);
        let (at, control) = (self.ms(at), if is_write { read + 1 } else { control });
        let step = StoreStep { client, lock, token, grant, at, seq, kind, writer, shared, accepted, fenced, control };
        self.and(Record::Store(step))
    }

    /// Changes the last record.
    pub(crate) fn edit_last(mut self, change: impl FnOnce(&mut Record)) -> Self {
        change(self.records.last_mut().unwrap());
        self
    }

    /// Changes the last step.
    pub(crate) fn edit_step(self, change: impl FnOnce(&mut StoreStep)) -> Self {
        self.edit_last(|record| match record {
            Record::Store(step) => change(step),
            other => panic!("no step: {other:?}"),
        })
    }

    /// The complete history: nothing is left, and the final state of each lock follows from its steps.
    pub(crate) fn finish(mut self) -> Vec<Record> {
        let mut locks: std::collections::BTreeMap<String, Final> = std::collections::BTreeMap::new();
        let end = |lock: &str| Final { lock: lock.into(), ..Final::default() };
        for record in &self.records {
            match record {
                Record::Acquire(one) => _ = locks.entry(one.lock.clone()).or_insert_with(|| end(&one.lock)),
                Record::Store(step) => {
                    let end = locks.entry(step.lock.clone()).or_insert_with(|| end(&step.lock));
                    end.writes_all += u64::from(step.is_write());
                    end.writes_accepted += u64::from(step.is_write() && step.accepted);
                    (end.fenced, end.control) = (step.fenced, step.control);
                }
                Record::Final(end) => _ = locks.insert(end.lock.clone(), end.clone()),
                _ => {}
            }
        }
        self.records.retain(|record| !matches!(record, Record::Final(_)));
        self.records.extend(locks.into_values().map(Record::Final));
        if !self.records.iter().any(|record| matches!(record, Record::Leftovers(_))) {
            let (at, none) = (ms(70_000), Vec::new);
            self.records.push(Record::Leftovers(Leftovers {
                at,
                leaked_keys: none(),
                crashed: none(),
                log_errors: none(),
            }));
        }
        self.records
    }

    pub(crate) fn verdict(self) -> Verdict {
        check(&self.finish())
    }

    #[track_caller]
    pub(crate) fn passes(self) {
        let verdict = self.verdict();
        assert!(verdict.violations.is_empty() && verdict.excused.is_empty(), "{verdict:#?}");
    }

    #[track_caller]
    pub(crate) fn satisfies(self, check: Check) {
        let verdict = self.verdict();
        let found = verdict.violations.iter().chain(&verdict.excused).find(|one| one.check == check);
        assert!(found.is_none(), "{verdict:#?}");
    }

    #[track_caller]
    pub(crate) fn violates(self, check: Check, message: &str) {
        let verdict = self.verdict();
        let found = verdict.violations.iter().any(|one| one.check == check && one.message.contains(message));
        assert!(found, "{verdict:#?}");
    }

    #[track_caller]
    pub(crate) fn excuses(self, check: Check, kind: &str) {
        let verdict = self.verdict();
        let excused = verdict.excused.iter().any(|one| one.check == check && one.excuse.as_deref() == Some(kind));
        assert!(excused && verdict.violations.iter().all(|one| one.check != check), "{verdict:#?}");
    }
}
