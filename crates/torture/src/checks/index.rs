//! A history by lock, sorted as the checks need it.

use super::lease::{Lease, leases};
use crate::{
    history::{Acquire, Bounds, Convert, Fault, Final, Leftovers, Lost, Nanos, Record, Release, Renewed, Revoked, Run},
    nodes::{Kept, Voting},
    steps::StoreStep,
};
use std::collections::BTreeMap;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// How long the server remembers an ended request.
pub(crate) const MEMORY: Nanos = 10 * SECOND;

/// The TTL to which the server shortens a lease granted to a dropped call.
pub(crate) const DROPPED: Nanos = 3 * SECOND;

/// A history by lock.
pub(crate) struct History<'a> {
    /// The run; an incomplete history has none.
    pub(crate) run: Option<&'a Run>,
    /// When the clients started: the zero of all times in messages.
    pub(crate) begin: Nanos,
    pub(crate) bounds: Bounds,
    /// The longest requested TTL.
    pub(crate) max_ttl: Nanos,
    pub(crate) locks: Vec<Lock<'a>>,
    pub(crate) faults: Vec<&'a Fault>,
    pub(crate) leftovers: Vec<&'a Leftovers>,
    pub(crate) kept: Vec<&'a Kept>,
    pub(crate) votings: Vec<&'a Voting>,
}

/// The records of one lock.
#[derive(Default)]
pub(crate) struct Lock<'a> {
    pub(crate) name: &'a str,
    /// In order of sending.
    pub(crate) acquires: Vec<&'a Acquire>,
    /// The transmissions of each request, in order of sending.
    pub(crate) requests: BTreeMap<&'a str, Vec<&'a Acquire>>,
    /// The distinct grants, by token.
    pub(crate) leases: Vec<Lease<'a>>,
    pub(crate) releases: Vec<&'a Release>,
    /// In order of sending.
    pub(crate) conversions: Vec<&'a Convert>,
    pub(crate) renewals: Vec<&'a Renewed>,
    pub(crate) losses: Vec<&'a Lost>,
    pub(crate) revokes: Vec<&'a Revoked>,
    /// In the order of the stores.
    pub(crate) steps: Vec<&'a StoreStep>,
    pub(crate) finals: Vec<&'a Final>,
}

impl<'a> History<'a> {
    pub(crate) fn of(records: &'a [Record]) -> Self {
        let mut locks: BTreeMap<&'a str, Lock<'a>> = BTreeMap::new();
        let (mut runs, mut faults, mut leftovers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut kept, mut votings) = (Vec::new(), Vec::new());
        for record in records {
            match record {
                Record::Run(run) => runs.push(run),
                Record::Fault(fault) => faults.push(fault),
                Record::Leftovers(rest) => leftovers.push(rest),
                Record::Kept(one) => kept.push(one),
                Record::Voting(voting) => votings.push(voting),
                Record::Acquire(acquire) => locks.entry(&acquire.lock).or_default().acquires.push(acquire),
                Record::Release(release) => locks.entry(&release.lock).or_default().releases.push(release),
                Record::Convert(convert) => locks.entry(&convert.lock).or_default().conversions.push(convert),
                Record::Renewed(renewed) => locks.entry(&renewed.lock).or_default().renewals.push(renewed),
                Record::Lost(lost) => locks.entry(&lost.lock).or_default().losses.push(lost),
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
            bounds: run.map_or(Bounds { claim_window: 3 * SECOND, beats: SECOND, slack: SECOND }, |run| run.bounds),
            max_ttl: acquires().map(|acquire| acquire.ttl).max().unwrap_or(0),
            run: run.filter(|_| runs.len() == 1),
            locks,
            faults,
            leftovers,
            kept,
            votings,
        }
    }
}

impl Lock<'_> {
    fn put_in_order(&mut self) {
        self.acquires.sort_by_key(|acquire| (acquire.invoke, acquire.attempt));
        self.conversions.sort_by_key(|convert| (convert.invoke, convert.ret));
        self.steps.sort_by_key(|step| step.seq);
        for acquire in &self.acquires {
            self.requests.entry(&acquire.request).or_default().push(acquire);
        }
        self.leases = leases(self);
    }
}

/// When a request with these transmissions, in order, was first sent.
pub(crate) fn first_sent(transmissions: &[&Acquire]) -> Nanos {
    transmissions.first().map_or(0, |first| first.invoke)
}
