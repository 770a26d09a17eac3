//! A history by lock, in the order that the checks want it in.

use super::lease::{Lease, leases};
use crate::history::{
    Acquire, Bounds, Fault, Final, Lost, Nanos, Record, Release, Renewed, Rest, Revoked, Run, StoreStep,
};
use std::collections::BTreeMap;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// For how long the server remembers a request that has ended.
pub(crate) const MEMORY: Nanos = 10 * SECOND;

/// To what the server cuts what it granted to a call that was dropped.
pub(crate) const DROPPED: Nanos = 3 * SECOND;

/// A history by lock.
pub(crate) struct History<'a> {
    /// What was run; a history without it is faulty.
    pub(crate) run: Option<&'a Run>,
    /// When the clients began: the zero of all times in messages.
    pub(crate) begin: Nanos,
    pub(crate) bounds: Bounds,
    /// The longest TTL that anybody asked for.
    pub(crate) max_ttl: Nanos,
    pub(crate) locks: Vec<Lock<'a>>,
    pub(crate) faults: Vec<&'a Fault>,
    pub(crate) rests: Vec<&'a Rest>,
}

/// What happened to one lock.
#[derive(Default)]
pub(crate) struct Lock<'a> {
    pub(crate) name: &'a str,
    /// By their sending.
    pub(crate) acquires: Vec<&'a Acquire>,
    /// The transmissions of each request, by their sending.
    pub(crate) requests: BTreeMap<&'a str, Vec<&'a Acquire>>,
    /// The different grants, by token.
    pub(crate) leases: Vec<Lease<'a>>,
    pub(crate) releases: Vec<&'a Release>,
    pub(crate) renewals: Vec<&'a Renewed>,
    pub(crate) losts: Vec<&'a Lost>,
    pub(crate) revokes: Vec<&'a Revoked>,
    /// In the order of the stores.
    pub(crate) steps: Vec<&'a StoreStep>,
    pub(crate) finals: Vec<&'a Final>,
}

impl<'a> History<'a> {
    pub(crate) fn of(records: &'a [Record]) -> Self {
        let mut locks: BTreeMap<&'a str, Lock<'a>> = BTreeMap::new();
        let (mut runs, mut faults, mut rests) = (Vec::new(), Vec::new(), Vec::new());
        for record in records {
            match record {
                Record::Run(run) => runs.push(run),
                Record::Fault(fault) => faults.push(fault),
                Record::Rest(rest) => rests.push(rest),
                Record::Acquire(acquire) => locks.entry(&acquire.lock).or_default().acquires.push(acquire),
                Record::Release(release) => locks.entry(&release.lock).or_default().releases.push(release),
                Record::Renewed(renewed) => locks.entry(&renewed.lock).or_default().renewals.push(renewed),
                Record::Lost(lost) => locks.entry(&lost.lock).or_default().losts.push(lost),
                Record::Revoked(revoked) => locks.entry(&revoked.lock).or_default().revokes.push(revoked),
                Record::Store(step) => locks.entry(&step.lock).or_default().steps.push(step),
                Record::Final(end) => locks.entry(&end.lock).or_default().finals.push(end),
            }
        }
        let mut locks: Vec<_> = locks.into_iter().map(|(name, lock)| Lock { name, ..lock }).collect();
        locks.iter_mut().for_each(Lock::put_in_order);
        faults.sort_by_key(|fault| fault.begin);
        let run = runs.first().copied();
        let acquires = || locks.iter().flat_map(|lock| &lock.acquires);
        Self {
            begin: run.map_or_else(|| acquires().map(|acquire| acquire.invoke).min().unwrap_or(0), |run| run.begin),
            bounds: run.map_or(Bounds { claim_window: 3 * SECOND, poll: SECOND, slack: SECOND }, |run| run.bounds),
            max_ttl: acquires().map(|acquire| acquire.ttl).max().unwrap_or(0),
            run: run.filter(|_| runs.len() == 1),
            locks,
            faults,
            rests,
        }
    }
}

impl Lock<'_> {
    fn put_in_order(&mut self) {
        self.acquires.sort_by_key(|acquire| (acquire.invoke, acquire.attempt));
        self.steps.sort_by_key(|step| step.seq);
        for acquire in &self.acquires {
            self.requests.entry(&acquire.request).or_default().push(acquire);
        }
        self.leases = leases(self);
    }
}

/// The first sending of a request of which these are the transmissions, in order.
pub(crate) fn first_sent(transmissions: &[&Acquire]) -> Nanos {
    transmissions.first().map_or(0, |first| first.invoke)
}
