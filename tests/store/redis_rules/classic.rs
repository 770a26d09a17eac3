//! A classic client beside the server, and the key that they share.

use super::both::{Both, CLASSIC, CLASSIC_TTL_MS, name};
use deadpool_redis::redis;
use fencepost::domain::{
    ids::GrantId,
    outcome::{AcquireOutcome, ClassicHold},
    time::StoreTime,
};
use std::time::{Duration, Instant};

/// What the classic key tells: the end of a grant (or of the offer), how much time was left when it was set, and when
/// that was at the earliest by a real clock.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    due: (Option<GrantId>, StoreTime),
    left: Duration,
    since: Instant,
}

#[expect(clippy::disallowed_methods, reason = "Redis drops keys by its own clock, which is not the test's")]
pub(crate) fn real_time() -> Instant {
    Instant::now()
}

impl Both {
    fn classic_key() -> String {
        format!("{CLASSIC}{}", name().as_str())
    }

    /// What of ours the key should tell, and until when: the value of a lease is its grant id.
    fn due(&self) -> Option<(Option<GrantId>, StoreTime)> {
        let lease = self.lock.lease().map(|lease| (Some(lease.grant_id), lease.expires_at));
        lease.or(self.lock.offered_until().map(|until| (None, until)))
    }

    /// Redis' clock is not the test's: what is over by the latter has its key deleted here, as Redis would have done.
    fn expire_classic_key(&mut self) {
        if self.classic.is_none() && self.due().is_some_and(|(_, until)| until <= self.now) {
            redis::cmd("DEL").arg(Self::classic_key()).exec(&mut self.connection).unwrap();
            self.gone = self.due();
            // If it comes back it is set anew, with what is left then.
            self.shown = None;
        }
    }

    /// Whether the key went by itself and the clock then stepped back over that, with no command between them that
    /// noticed: the key is not there, and the lock is held, until one comes by.
    fn is_gone_unnoticed(&self) -> bool {
        self.gone.is_some() && self.gone == self.due()
    }

    /// Whether the key that tells this may be gone by Redis' own clock: with a millisecond left by the test's, it soon
    /// is.
    fn may_have_gone(&self, due: (Option<GrantId>, StoreTime)) -> bool {
        self.shown.is_some_and(|shown| shown.due == due && shown.since.elapsed() >= shown.left)
    }

    /// The classic recipe, but for its TTL: every lease that is valid keeps it out, and every offer.
    pub(crate) fn classic_take(&mut self, ends: bool) -> Result<(), String> {
        self.expire_classic_key();
        let mut take = redis::cmd("SET");
        take.arg(Self::classic_key()).arg("a classic client").arg("NX");
        if ends {
            take.arg("PX").arg(CLASSIC_TTL_MS);
        }
        let taken: Option<String> = take.query(&mut self.connection).unwrap();
        let held = self.classic.is_some() || self.due().is_some_and(|(_, until)| self.now < until);
        let gone = self.is_gone_unnoticed() || self.due().is_some_and(|due| self.may_have_gone(due));
        if taken.is_none() != held && !(taken.is_some() && gone) {
            return Err(format!("a classic client was answered {taken:?}, and the lock is held: {held}"));
        }
        if taken.is_some() {
            self.classic = Some(ClassicHold { left: ends.then_some(Duration::from_millis(CLASSIC_TTL_MS)) });
        }
        Ok(())
    }

    pub(crate) fn classic_give(&mut self) {
        if self.classic.take().is_some() {
            redis::cmd("DEL").arg(Self::classic_key()).exec(&mut self.connection).unwrap();
        }
    }

    /// After each command: the key is the classic client's, or says what the lease says.
    pub(crate) fn check_classic_key(&mut self) -> Result<(), String> {
        self.expire_classic_key();
        let value: Option<String> = redis::cmd("GET").arg(Self::classic_key()).query(&mut self.connection).unwrap();
        let pttl: i64 = redis::cmd("PTTL").arg(Self::classic_key()).query(&mut self.connection).unwrap();
        let due = self.due().filter(|(_, until)| self.now < *until);
        let expected = match (self.classic, due) {
            (Some(_), _) => Some("a classic client".to_owned()),
            (None, Some((None, _))) => Some("on offer by fencepost".to_owned()),
            (None, due) => due.and_then(|(grant, _)| grant).map(|grant| grant.0.to_string()),
        };
        if let Some(due) = due.filter(|due| self.classic.is_none() && self.shown.is_none_or(|shown| shown.due != *due))
        {
            self.shown = Some(Shown { due, left: due.1.since(self.now), since: self.sent });
        }
        if value.is_none() && due.is_some_and(|due| self.may_have_gone(due)) {
            (self.gone, self.shown) = (due, None);
        }
        if value.is_none() && self.is_gone_unnoticed() {
            return Ok(());
        }
        // With a classic client's key in its place nobody can tell; it is not there when that is given back.
        self.gone = self.gone.filter(|_| self.classic.is_some());
        if value != expected {
            return Err(format!("the key holds {value:?}, not {expected:?}"));
        }
        let Some(due) = due.filter(|_| self.classic.is_none()) else { return Ok(()) };
        // Its TTL is that of the moment at which the end was last set: an earlier one, or this.
        let tells = |left: Duration| {
            let left = i64::try_from(left.as_millis()).unwrap();
            (left - REAL_TIME_MS..=left + 2).contains(&pttl)
        };
        let (then, left) = (self.shown.map(|shown| shown.left), due.1.since(self.now));
        if !then.is_some_and(tells) {
            if !tells(left) {
                return Err(format!("the key has {pttl} ms left, the lease {left:?}, or {then:?} when it was set"));
            }
            self.shown = Some(Shown { due, left, since: self.sent });
        }
        Ok(())
    }
}

/// An outcome without the time that passed between taking the classic lock and the command.
pub(crate) fn rounded(mut outcome: AcquireOutcome) -> AcquireOutcome {
    if let AcquireOutcome::Contended(contention) | AcquireOutcome::TimedOut(contention) = &mut outcome
        && let Some(ClassicHold { left: Some(left) }) = &mut contention.classic
    {
        let whole = Duration::from_millis(CLASSIC_TTL_MS);
        assert!(*left <= whole && whole - *left < Duration::from_millis(REAL_TIME_MS.unsigned_abs()), "{left:?}");
        *left = whole;
    }
    outcome
}

/// What the test itself may take.
const REAL_TIME_MS: i64 = 10_000;
