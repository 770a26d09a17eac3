//! What each caller uses now, counted by identity, or by address for callers without one.

use super::{
    file::QuotaMode,
    quota::{Limit, Quota},
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The longest time after which a refused acquire is to be tried again.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// So many accounts are kept before those that nobody uses are looked for.
const ACCOUNTS_KEPT: usize = 1_024;
const SECOND: u64 = 1_000_000_000;

/// Whose account it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    Identity(String),
    /// A network, as the bounds on connections count it.
    Address(IpAddr),
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(name) => out.write_str(name),
            Self::Address(address) => address.fmt(out),
        }
    }
}

/// What one caller uses.
#[derive(Debug)]
pub(super) struct Account {
    subject: Subject,
    /// By limit. That of acquires in a second stays 0: `paid_off` counts them.
    used: [AtomicU32; Limit::ALL.len()],
    /// When all acquires so far are paid off at the rate of the quota, in nanoseconds since the accounts began (GCRA,
    /// the leaky bucket as a meter of ITU-T I.371). After a change of the quota nobody owes more than the new burst.
    paid_off: AtomicU64,
    /// When there is room for all acquires that were refused, if they come one after the other at the rate.
    room_for_all: AtomicU64,
}

impl Account {
    fn used(&self, limit: Limit) -> &AtomicU32 {
        &self.used[limit as usize]
    }
}

/// The accounts of a server.
#[derive(Debug)]
pub(super) struct Accounts {
    began: Instant,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    accounts: HashMap<Subject, Arc<Account>>,
    /// How many were in use when it was last looked for those that are not.
    in_use: usize,
}

impl Accounts {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), open: Mutex::default() }
    }

    /// The account of this caller.
    pub(super) fn of(&self, subject: Subject) -> Arc<Account> {
        let mut open = self.open.lock();
        if let Some(account) = open.accounts.get(&subject) {
            return account.clone();
        }
        if open.accounts.len() >= ACCOUNTS_KEPT.max(2 * open.in_use) {
            let now = self.now();
            open.accounts.retain(|_, account| Arc::strong_count(account) > 1 || account.paid_off.load(Relaxed) > now);
            open.in_use = open.accounts.len();
        }
        let account = Arc::new(Account {
            subject: subject.clone(),
            used: Limit::ALL.map(|_| AtomicU32::new(0)),
            paid_off: AtomicU64::new(0),
            room_for_all: AtomicU64::new(0),
        });
        open.accounts.insert(subject, account.clone());
        account
    }

    /// What is in use: by whom, of what, and how much.
    pub(super) fn usage(&self) -> Vec<(String, Limit, u32)> {
        let open = self.open.lock();
        let of = |account: &Account| {
            let subject = account.subject.to_string();
            let used = Limit::ALL.map(|limit| (limit, account.used(limit).load(Relaxed)));
            used.into_iter().filter(|(_, used)| *used > 0).map(move |(limit, used)| (subject.clone(), limit, used))
        };
        open.accounts.values().flat_map(|account| of(account)).collect()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A caller's account, and what it may use.
#[derive(Clone, Debug)]
pub struct Allowance {
    pub(super) accounts: Arc<Accounts>,
    pub(super) account: Arc<Account>,
    pub(super) quota: Arc<Quota>,
}

/// What a caller would use above its quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The caller: its identity, or its address.
    pub subject: String,
    /// Which limit.
    pub limit: Limit,
    /// The most that it allows.
    pub max: u32,
    /// When to try again, if that is known.
    pub retry_in: Option<Duration>,
    /// Whether it is refused, or only counted.
    pub mode: QuotaMode,
}

/// Something in use. Dropped, it is so no more.
#[derive(Debug)]
pub struct InUse {
    account: Arc<Account>,
    limit: Limit,
    count: AtomicU32,
}

impl InUse {
    /// Changes how much is in use.
    pub fn set(&self, count: u32) {
        let before = self.count.swap(count, Relaxed);
        let used = self.account.used(self.limit);
        if count >= before {
            used.fetch_add(count - before, Relaxed);
        } else {
            used.fetch_sub(before - count, Relaxed);
        }
    }

    /// Whether it counts for this caller.
    pub fn is_of(&self, allowance: &Allowance) -> bool {
        Arc::ptr_eq(&self.account, &allowance.account)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Allowance {
    /// Counts one more in use, unless the quota refuses it. Also returns what the quota does not allow, which is in use
    /// all the same if the quota is only observed.
    pub fn take(&self, limit: Limit) -> (Option<InUse>, Option<Exceeded>) {
        let (used, max) = (self.account.used(limit), self.quota.max(limit));
        let one_more = |used: u32| match (self.quota.mode, max) {
            (QuotaMode::Enforce, Some(max)) if used >= max => None,
            _ => Some(used.saturating_add(1)),
        };
        let (taken, before) = match used.fetch_update(Relaxed, Relaxed, one_more) {
            Ok(before) => (true, before),
            Err(before) => (false, before),
        };
        let exceeded = max.filter(|max| before >= *max).map(|max| self.exceeded(limit, max, None));
        (taken.then(|| InUse { account: self.account.clone(), limit, count: AtomicU32::new(1) }), exceeded)
    }

    /// Counts so many in use, which is never refused.
    pub fn count(&self, limit: Limit, count: u32) -> InUse {
        let in_use = InUse { account: self.account.clone(), limit, count: AtomicU32::new(0) };
        in_use.set(count);
        in_use
    }

    /// Counts an acquire at the rate of the quota, or says that it does not allow it.
    pub fn acquire(&self) -> Option<Exceeded> {
        let (rate, now) = (self.quota.max(Limit::AcquiresPerSecond)?, self.accounts.now());
        let room_in = self.pay(rate, now).err()?;
        let retry_in = self.line_up(room_in, rate, now);
        Some(self.exceeded(Limit::AcquiresPerSecond, rate, Some(retry_in)))
    }

    /// When a refused acquire is to come again: those of many clients one after the other, so that not all of them come
    /// for the same room.
    fn line_up(&self, room_in: Duration, rate: u32, now: u64) -> Duration {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let room_at = now.saturating_add(nanos(room_in));
        let longest = now.saturating_add(nanos(RETRY_MAX));
        let own = |all: u64| all.clamp(room_at, longest.max(room_at));
        let with_own = |all| Some(own(all).saturating_add(SECOND / u64::from(rate).max(1)));
        let (Ok(all) | Err(all)) = self.account.room_for_all.fetch_update(Relaxed, Relaxed, with_own);
        Duration::from_nanos(own(all) - now)
    }

    /// Counts an acquire at this time, or returns when there is room for it.
    fn pay(&self, rate: u32, now: u64) -> Result<(), Duration> {
        let each = SECOND / u64::from(rate).max(1);
        let ahead_max = each.saturating_mul(u64::from(self.quota.burst));
        let after = |paid_off: u64| paid_off.clamp(now, now.saturating_add(ahead_max)).saturating_add(each);
        let one_more = |paid_off| Some(after(paid_off)).filter(|after| *after - now <= ahead_max);
        match self.account.paid_off.fetch_update(Relaxed, Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(paid_off) => Err(Duration::from_nanos(after(paid_off) - now - ahead_max)),
        }
    }

    fn exceeded(&self, limit: Limit, max: u32, retry_in: Option<Duration>) -> Exceeded {
        Exceeded { subject: self.account.subject.to_string(), limit, max, retry_in, mode: self.quota.mode }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tests::quota;

    fn allowance(text: &str) -> Allowance {
        let accounts = Arc::new(Accounts::new());
        let account = accounts.of(Subject::Identity("a".to_owned()));
        Allowance { accounts, account, quota: quota(text) }
    }

    #[test]
    fn acquires_come_at_the_rate_after_a_burst() {
        let it = allowance("acquires_per_second = 10\nburst = 3");
        let tenth = SECOND / 10;
        for _ in 0..3 {
            assert_eq!(it.pay(10, 5 * SECOND), Ok(()));
        }
        assert_eq!(it.pay(10, 5 * SECOND), Err(Duration::from_millis(100)));
        // A refused acquire costs nothing.
        assert_eq!(it.pay(10, 5 * SECOND + tenth / 4), Err(Duration::from_millis(75)));
        assert_eq!(it.pay(10, 5 * SECOND + tenth), Ok(()));
        assert_eq!(it.pay(10, 5 * SECOND + tenth), Err(Duration::from_millis(100)));
        // A pause allows another burst, and no more than that.
        let later = 100 * SECOND;
        assert_eq!((0..9).filter(|_| it.pay(10, later).is_ok()).count(), 3);
        // At a higher rate, what was acquired at the old one is owed up to the burst.
        assert_eq!(it.pay(1_000, later), Err(Duration::from_millis(1)));
    }

    #[test]
    fn what_is_in_use_is_bounded_and_free_again_when_dropped() {
        let it = allowance("waits = 2\nstreams = 1");
        let (first, second) = (it.take(Limit::Waits).0, it.take(Limit::Waits).0.unwrap());
        let (refused, exceeded) = it.take(Limit::Waits);
        let exceeded = exceeded.unwrap();
        assert!(refused.is_none() && exceeded.limit == Limit::Waits && exceeded.max == 2 && exceeded.subject == "a");
        assert!(it.take(Limit::Streams).0.is_some(), "each limit counts by itself");
        assert!(it.take(Limit::Connections).1.is_none(), "what has no limit is not refused");
        drop(first);
        let (third, none) = it.take(Limit::Waits);
        assert!(third.is_some() && none.is_none());
        drop((second, third));
        assert_eq!(it.accounts.usage(), []);
    }

    #[test]
    fn observed_quotas_count_beyond_the_limit() {
        let it = allowance("waits = 1\nleases = 1\nmode = \"observe\"");
        let (one, exceeded) = it.take(Limit::Waits);
        assert!(one.is_some() && exceeded.is_none());
        let (two, exceeded) = it.take(Limit::Waits);
        assert!(two.is_some() && exceeded.unwrap().mode == QuotaMode::Observe);
        assert_eq!(it.accounts.usage(), [("a".to_owned(), Limit::Waits, 2)]);
    }

    #[test]
    fn acquires_under_way_are_counted_with_the_leases() {
        let it = allowance("leases = 2");
        let kept = it.count(Limit::Leases, 1);
        let (under_way, exceeded) = it.take(Limit::Leases);
        assert!(under_way.is_some() && exceeded.is_none());
        assert_eq!(it.take(Limit::Leases).1.unwrap().limit, Limit::Leases);
        // It has its lease.
        kept.set(2);
        drop(under_way);
        assert!(it.take(Limit::Leases).0.is_none());
        kept.set(7);
        assert_eq!(it.accounts.usage(), [("a".to_owned(), Limit::Leases, 7)]);
        drop(kept);
        assert!(it.take(Limit::Leases).0.is_some());
    }

    #[test]
    fn refused_acquires_come_again_one_after_the_other() {
        let it = allowance("acquires_per_second = 10\nburst = 2");
        let room = Duration::from_millis(40);
        let retries: Vec<_> = (0..4).map(|_| it.line_up(room, 10, SECOND).as_millis()).collect();
        assert_eq!(retries, [40, 140, 240, 340]);
        assert_eq!(it.line_up(room, 10, SECOND + SECOND / 4).as_millis(), 190, "the line moves on");
        assert_eq!(it.line_up(room, 10, 9 * SECOND).as_millis(), 40, "who has come in time is no longer before others");
        let longest = (0..1_000).map(|_| it.line_up(room, 10, 20 * SECOND)).max();
        assert_eq!(longest, Some(RETRY_MAX));
    }

    #[test]
    fn accounts_that_nobody_uses_are_forgotten() {
        let accounts = Accounts::new();
        let address = |number: u32| Subject::Address(IpAddr::from(number.to_be_bytes()));
        let used = accounts.of(address(0));
        let owing = accounts.of(address(1));
        owing.paid_off.store(u64::MAX, Relaxed);
        drop(owing);
        for number in 2..10_000 {
            accounts.of(address(number));
        }
        let open = accounts.open.lock();
        assert!(open.accounts.len() <= ACCOUNTS_KEPT + 1);
        assert!(open.accounts.contains_key(&used.subject), "it is in use");
        assert!(open.accounts.contains_key(&address(1)), "its burst is not paid off");
    }
}
