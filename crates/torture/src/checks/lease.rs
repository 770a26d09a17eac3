//! One grant and its records: what its holder believed, and what the server may have believed.

use super::{
    index::{Lock, first_sent},
    tokens::Tokens,
};
use crate::history::{
    Acquire, AcquireEnd, Convert, ConvertEnd, Grant, Lost, Nanos, Release, ReleaseEnd, Renewed, Revoked,
};
use std::collections::{BTreeMap, HashMap};

/// One grant.
pub(crate) struct Lease<'a> {
    /// That of the grant. An upgrade gives it another one.
    pub(crate) token: u64,
    pub(crate) grant: &'a str,
    pub(crate) client: u32,
    /// All transmissions of its request.
    pub(crate) transmissions: Vec<&'a Acquire>,
    /// The transmissions that were answered with it, in order of return; at least one.
    pub(crate) answers: Vec<(&'a Acquire, &'a Grant)>,
    /// In order of sending.
    pub(crate) conversions: Vec<&'a Convert>,
    pub(crate) renewals: Vec<&'a Renewed>,
    pub(crate) releases: Vec<&'a Release>,
    pub(crate) losses: Vec<&'a Lost>,
    pub(crate) revokes: Vec<&'a Revoked>,
}

/// An upgrade that gave a lease a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upgrade {
    pub(crate) client: u32,
    pub(crate) token: u64,
    /// The earliest and the latest time at which it can have been made.
    pub(crate) from: Nanos,
    pub(crate) by: Nanos,
}

/// A part of the time in which the holder of a lease considered it valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
    /// Whether others may hold the lock beside it.
    pub(crate) is_beside: bool,
}

/// The grants of a lock, by token.
pub(crate) fn leases<'a>(lock: &Lock<'a>) -> Vec<Lease<'a>> {
    let mut found: BTreeMap<(u64, &'a str), Vec<(&'a Acquire, &'a Grant)>> = BTreeMap::new();
    let tokens = Tokens::of(lock);
    for acquire in &lock.acquires {
        if let AcquireEnd::Acquired(grant) = &acquire.end {
            found.entry((tokens.of_grant(grant), &grant.grant)).or_default().push((acquire, grant));
        }
    }
    let conversions = by_token(&lock.conversions, |convert| (tokens.first(convert.token), convert.invoke));
    let renewals = by_token(&lock.renewals, |renewed| (tokens.first(renewed.token), renewed.at));
    let releases = by_token(&lock.releases, |release| (tokens.first(release.token), release.invoke));
    let losses = by_token(&lock.losses, |lost| (tokens.first(lost.token), lost.at));
    let revokes = by_token(&lock.revokes, |revoked| (tokens.first(revoked.token), revoked.invoke));
    let lease = |((token, grant), mut answers): ((u64, &'a str), Vec<(&'a Acquire, &'a Grant)>)| {
        answers.sort_by_key(|(acquire, _)| acquire.ret);
        let request = answers[0].0.request.as_str();
        Lease {
            token,
            grant,
            client: answers[0].0.client,
            transmissions: lock.requests.get(request).cloned().unwrap_or_default(),
            answers,
            conversions: conversions.get(&token).cloned().unwrap_or_default(),
            renewals: renewals.get(&token).cloned().unwrap_or_default(),
            releases: releases.get(&token).cloned().unwrap_or_default(),
            losses: losses.get(&token).cloned().unwrap_or_default(),
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
    /// The latest time at which it can have been made: the first answer with it.
    pub(crate) fn made_by(&self) -> Nanos {
        self.answers[0].0.ret
    }

    /// The earliest time at which it can have been made, under all faults.
    pub(crate) fn asked_from(&self) -> Nanos {
        first_sent(&self.transmissions)
    }

    /// The earliest time at which it can have been made, if no clock was changed: the script that answered ran
    /// `held_for` after the request arrived, and found a lease that had used this much of its TTL. A retry may have
    /// renewed the TTL, so with several transmissions only the first sending is known.
    pub(crate) fn made_from(&self) -> Nanos {
        match (self.transmissions.as_slice(), self.answers.as_slice()) {
            ([_], [(acquire, grant)]) => {
                let ran = acquire.invoke + grant.held_for.min(acquire.ret - acquire.invoke);
                ran.saturating_sub(acquire.ttl.saturating_sub(grant.left)).max(acquire.invoke)
            }
            _ => self.asked_from(),
        }
    }

    /// Whether it was granted as one that may stand beside others. All transmissions of a request ask for the same.
    pub(crate) fn is_beside_others(&self) -> bool {
        self.answers[0].0.is_beside_others()
    }

    /// Whether it may have stood beside others at any time.
    pub(crate) fn may_be_beside_others(&self) -> bool {
        self.is_beside_others() || self.conversions.iter().any(|convert| convert.shared)
    }

    /// The upgrades that gave it another token, in order of sending.
    pub(crate) fn upgrades(&self) -> impl Iterator<Item = Upgrade> {
        self.conversions.iter().filter_map(|convert| {
            let token = convert.new_token().filter(|token| *token != convert.token)?;
            // A call before it, without an answer, may have made it.
            let same = self.conversions.iter().filter(|one| one.may_change_token() && one.token == convert.token);
            let from = same.map(|one| one.invoke).min()?;
            Some(Upgrade { client: self.client, token, from, by: convert.ret })
        })
    }

    /// The highest of its tokens that its holder learned.
    pub(crate) fn newest_token(&self) -> u64 {
        let answered = self.answers.iter().map(|(_, grant)| grant.token);
        answered.chain(self.upgrades().map(|upgrade| upgrade.token)).max().unwrap_or(self.token)
    }

    /// Whether this answer is of it.
    pub(crate) fn is_of(&self, grant: &Grant) -> bool {
        self.grant == grant.grant && self.answers.iter().any(|(_, other)| other.token == grant.token)
    }

    /// How long it occupies its place after the grant at least.
    pub(crate) fn min_hold(&self) -> Nanos {
        self.answers[0].0.min_hold
    }

    /// How long it occupies its place after its end, unless its holder releases it.
    pub(crate) fn lock_delay(&self) -> Nanos {
        self.answers[0].0.lock_delay
    }

    /// The longest time from the grant to its end, if it has a bound.
    pub(crate) fn max_hold(&self) -> Option<Nanos> {
        Some(self.answers[0].0.max_hold).filter(|bound| *bound > 0)
    }

    /// Its permits of a semaphore.
    pub(crate) fn permits(&self) -> u32 {
        self.answers[0].0.permits
    }

    /// Its slot, by each answer.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.answers.iter().map(|(_, grant)| grant.slot)
    }

    /// When its holder stopped working: it sent a release, or learned of the loss.
    pub(crate) fn stopped(&self) -> Option<Nanos> {
        let released = self.releases.first().map(|release| release.invoke);
        let lost = self.losses.first().map(|lost| lost.at);
        released.into_iter().chain(lost).min()
    }

    /// Whether it was ever valid for its holder.
    pub(crate) fn was_usable(&self) -> bool {
        self.answers.iter().any(|(_, grant)| grant.usable)
    }

    /// What its holder knew of its validity, as (known at, valid until), by the former.
    fn known_validities(&self) -> Vec<(Nanos, Nanos)> {
        let answers = self
            .answers
            .iter()
            .filter(|(_, grant)| grant.usable)
            .map(|(acquire, grant)| (acquire.ret, grant.valid_until));
        let mut known: Vec<_> = answers.chain(self.renewals.iter().map(|one| (one.at, one.valid_until))).collect();
        known.sort_unstable();
        known
    }

    /// Until when it was valid, by what its holder knew at `time`.
    pub(crate) fn validity_known_at(&self, time: Nanos) -> Option<Nanos> {
        self.known_validities().into_iter().filter(|(at, _)| *at <= time).map(|(_, until)| until).max()
    }

    /// When its holder considered it valid and may have worked. A renewal that arrived after the end opens a new
    /// interval: in between the holder did not work.
    pub(crate) fn intervals(&self) -> Vec<(Nanos, Nanos)> {
        let stop = self.stopped().unwrap_or(Nanos::MAX);
        let mut intervals: Vec<(Nanos, Nanos)> = Vec::new();
        if !self.was_usable() {
            return intervals;
        }
        for (at, until) in self.known_validities() {
            let until = until.min(stop);
            match intervals.last_mut() {
                Some(last) if at <= last.1 => last.1 = last.1.max(until),
                _ if at < until => intervals.push((at, until)),
                _ => {}
            }
        }
        intervals
    }

    /// The same, cut where its holder changes its mind about whether others may hold the lock beside it.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let modes = self.modes();
        let until = |index: usize| modes.get(index + 1).map_or(Nanos::MAX, |(at, _)| *at);
        let mut spans = Vec::new();
        for (from, end) in self.intervals() {
            let parts = modes.iter().enumerate().map(|(index, (at, is_beside))| Span {
                from: from.max(*at),
                until: end.min(until(index)),
                is_beside: *is_beside,
            });
            spans.extend(parts.filter(|span| span.from < span.until));
        }
        spans
    }

    /// From when on its holder may rely on being alone (false), or does not (true). A downgrade counts from when it was
    /// sent, even if its outcome is unknown: readers may be there. An upgrade counts once it was answered.
    fn modes(&self) -> Vec<(Nanos, bool)> {
        let mut modes = vec![(0, self.is_beside_others())];
        for convert in &self.conversions {
            match convert.end {
                ConvertEnd::Refused(_) => {}
                _ if convert.shared => modes.push((convert.invoke, true)),
                ConvertEnd::Converted(_) => modes.push((convert.ret, false)),
                _ => {}
            }
        }
        modes.sort_by_key(|(at, _)| *at);
        modes
    }

    /// When it had certainly ended, as reported by the server.
    pub(crate) fn ended_by_server(&self) -> Option<Nanos> {
        let released = self.releases.iter().filter(|release| !matches!(release.end, ReleaseEnd::Unknown(_)));
        let lost = self.losses.iter().filter(|lost| !is_local_expiry(lost)).map(|lost| lost.at);
        let revoked = self.revokes.iter().filter(|revoked| revoked.certain).map(|revoked| revoked.ret);
        released.map(|release| release.ret).chain(lost).chain(revoked).min()
    }

    /// The last known activity of its holder: it answered no beat later.
    pub(crate) fn last_known(&self) -> Nanos {
        let known = self.answers.iter().map(|(acquire, grant)| acquire.ret.max(grant.valid_until));
        let renewed = self.renewals.iter().map(|renewed| renewed.at.max(renewed.valid_until));
        known.chain(renewed).chain(self.stopped()).max().unwrap_or(0)
    }

    /// Until when the server may have considered it valid, if no fault was near: its holder may have sent a last
    /// renewal, of which it heard nothing, as late as its own end, and that counts for a whole TTL.
    pub(crate) fn held_until(&self, slack: Nanos) -> Nanos {
        self.ended_by_server().unwrap_or_else(|| self.last_known() + self.ttl() + slack)
    }

    /// The requested TTL.
    pub(crate) fn ttl(&self) -> Nanos {
        self.answers[0].0.ttl
    }

    /// Its earliest possible end, if the server kept its promise: the request had not ended before.
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

/// Whether the holder noticed the end by its own clock.
pub(crate) fn is_local_expiry(lost: &Lost) -> bool {
    matches!(lost.cause.as_str(), "deadline" | "validity_over")
}
