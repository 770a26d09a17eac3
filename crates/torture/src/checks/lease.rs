//! One grant, with all that is known of it: what its holder believed, and what the server may have believed.

use super::index::{Lock, first_sent};
use crate::history::{Acquire, AcquireEnd, Grant, Lost, Nanos, Release, ReleaseEnd, Renewed, Revoked};
use std::collections::{BTreeMap, HashMap};

/// One grant.
pub(crate) struct Lease<'a> {
    pub(crate) token: u64,
    pub(crate) grant: &'a str,
    pub(crate) client: u32,
    /// All transmissions of the request that it was granted to.
    pub(crate) transmissions: Vec<&'a Acquire>,
    /// Those that were answered with it, by their return; at least one.
    pub(crate) answers: Vec<(&'a Acquire, &'a Grant)>,
    pub(crate) renewals: Vec<&'a Renewed>,
    pub(crate) releases: Vec<&'a Release>,
    pub(crate) losts: Vec<&'a Lost>,
    pub(crate) revokes: Vec<&'a Revoked>,
}

/// The grants of a lock, by token.
pub(crate) fn leases<'a>(lock: &Lock<'a>) -> Vec<Lease<'a>> {
    let mut found: BTreeMap<(u64, &'a str), Vec<(&'a Acquire, &'a Grant)>> = BTreeMap::new();
    for acquire in &lock.acquires {
        if let AcquireEnd::Acquired(grant) = &acquire.end {
            found.entry((grant.token, &grant.grant)).or_default().push((acquire, grant));
        }
    }
    let renewals = by_token(&lock.renewals, |renewed| (renewed.token, renewed.at));
    let releases = by_token(&lock.releases, |release| (release.token, release.invoke));
    let losts = by_token(&lock.losts, |lost| (lost.token, lost.at));
    let revokes = by_token(&lock.revokes, |revoked| (revoked.token, revoked.invoke));
    let lease = |((token, grant), mut answers): ((u64, &'a str), Vec<(&'a Acquire, &'a Grant)>)| {
        answers.sort_by_key(|(acquire, _)| acquire.ret);
        let request = answers[0].0.request.as_str();
        Lease {
            token,
            grant,
            client: answers[0].0.client,
            transmissions: lock.requests.get(request).cloned().unwrap_or_default(),
            answers,
            renewals: renewals.get(&token).cloned().unwrap_or_default(),
            releases: releases.get(&token).cloned().unwrap_or_default(),
            losts: losts.get(&token).cloned().unwrap_or_default(),
            revokes: revokes.get(&token).cloned().unwrap_or_default(),
        }
    };
    found.into_iter().map(lease).collect()
}

fn by_token<'a, T>(records: &[&'a T], key: impl Fn(&T) -> (u64, Nanos)) -> HashMap<u64, Vec<&'a T>> {
    let mut sorted = records.to_vec();
    sorted.sort_by_key(|record| key(record));
    let mut found: HashMap<u64, Vec<&'a T>> = HashMap::new();
    for record in sorted {
        found.entry(key(record).0).or_default().push(record);
    }
    found
}

impl Lease<'_> {
    /// When it was certainly made: somebody knew of it.
    pub(crate) fn made_by(&self) -> Nanos {
        self.answers[0].0.ret
    }

    /// When it was made at the earliest, under all faults.
    pub(crate) fn asked_from(&self) -> Nanos {
        first_sent(&self.transmissions)
    }

    /// When it was made at the earliest, if no clock was touched: the script that answered ran `held_for` after the
    /// request arrived, and found a lease that had used up this much of its TTL. A retry may have found a TTL armed
    /// anew, so with more than one transmission nothing is known but the first.
    pub(crate) fn made_from(&self) -> Nanos {
        match (self.transmissions.as_slice(), self.answers.as_slice()) {
            ([_], [(acquire, grant)]) => {
                let ran = acquire.invoke + grant.held_for.min(acquire.ret - acquire.invoke);
                ran.saturating_sub(acquire.ttl.saturating_sub(grant.left)).max(acquire.invoke)
            }
            _ => self.asked_from(),
        }
    }

    /// From when on its holder does not work under it: it gave it back, or knew that it was lost.
    pub(crate) fn stopped(&self) -> Option<Nanos> {
        let released = self.releases.first().map(|release| release.invoke);
        let lost = self.losts.first().map(|lost| lost.at);
        released.into_iter().chain(lost).min()
    }

    /// Was it ever valid in its holder's hands?
    pub(crate) fn was_usable(&self) -> bool {
        self.answers.iter().any(|(_, grant)| grant.usable)
    }

    /// What its holder had heard of its validity, as (heard at, valid until), by the former.
    fn heard(&self) -> Vec<(Nanos, Nanos)> {
        let answers = self
            .answers
            .iter()
            .filter(|(_, grant)| grant.usable)
            .map(|(acquire, grant)| (acquire.ret, grant.valid_until));
        let mut heard: Vec<_> = answers.chain(self.renewals.iter().map(|one| (one.at, one.valid_until))).collect();
        heard.sort_unstable();
        heard
    }

    /// Until when it was valid, by what its holder had heard until `time`.
    pub(crate) fn reckoned_at(&self, time: Nanos) -> Option<Nanos> {
        self.heard().into_iter().filter(|(at, _)| *at <= time).map(|(_, until)| until).max()
    }

    /// When its holder held it to be valid and may have worked under it. A renewal that came after the end opens a new
    /// piece: between them the holder did not work.
    pub(crate) fn pieces(&self) -> Vec<(Nanos, Nanos)> {
        let stop = self.stopped().unwrap_or(Nanos::MAX);
        let mut pieces: Vec<(Nanos, Nanos)> = Vec::new();
        if !self.was_usable() {
            return pieces;
        }
        for (at, until) in self.heard() {
            let until = until.min(stop);
            match pieces.last_mut() {
                Some(last) if at <= last.1 => last.1 = last.1.max(until),
                _ if at < until => pieces.push((at, until)),
                _ => {}
            }
        }
        pieces
    }

    /// When it was over for certain, by the word of the server.
    pub(crate) fn told_over(&self) -> Option<Nanos> {
        let released = self.releases.iter().filter(|release| !matches!(release.end, ReleaseEnd::Unknown(_)));
        let lost = self.losts.iter().filter(|lost| !is_own_reckoning(lost)).map(|lost| lost.at);
        let revoked = self.revokes.iter().filter(|revoked| revoked.certain).map(|revoked| revoked.ret);
        released.map(|release| release.ret).chain(lost).chain(revoked).min()
    }

    /// The last that is known of its holder: it answered no beat later than this.
    pub(crate) fn last_known(&self) -> Nanos {
        let heard = self.answers.iter().map(|(acquire, grant)| acquire.ret.max(grant.valid_until));
        let renewed = self.renewals.iter().map(|renewed| renewed.at.max(renewed.valid_until));
        heard.chain(renewed).chain(self.stopped()).max().unwrap_or(0)
    }

    /// Until when the server may have held it to be valid, if no fault was near: its holder may have sent a last
    /// renewal, of which nobody heard, as late as its own end, and that counts for a whole TTL.
    pub(crate) fn held_until(&self, slack: Nanos) -> Nanos {
        self.told_over().unwrap_or_else(|| self.last_known() + self.ttl() + slack)
    }

    /// The TTL asked for.
    pub(crate) fn ttl(&self) -> Nanos {
        self.answers[0].0.ttl
    }

    /// When it ended at the earliest, if the server kept its promise: before this, the request had not ended.
    pub(crate) fn ended_from(&self) -> Nanos {
        let unanswered = self
            .transmissions
            .iter()
            .filter(|one| matches!(one.end, AcquireEnd::Dropped | AcquireEnd::Unknown(_)))
            .map(|one| one.invoke);
        let revoked = self.revokes.iter().map(|revoked| revoked.invoke);
        let until = self.answers.iter().map(|(acquire, grant)| grant.valid_until.max(acquire.invoke));
        let until = until.chain(self.renewals.iter().map(|one| one.valid_until)).max();
        until.into_iter().chain(self.stopped()).chain(unanswered).chain(revoked).min().unwrap_or(0)
    }
}

/// Did the holder find out for itself, from its own clock?
pub(crate) fn is_own_reckoning(lost: &Lost) -> bool {
    matches!(lost.cause.as_str(), "deadline" | "validity_over")
}
