//! Time that stands still until a test lets it pass: `tokio::time` for the server's sources, and their clock.

use crate::{clock::Clock, domain::time::StoreTime, sync::point};
use std::{
    cell::RefCell,
    future::Future,
    ops::{Add, Sub},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Where the store's time begins.
pub const START: StoreTime = StoreTime::from_micros(1_800_000_000_000_000);

#[derive(Default)]
struct Time {
    now: Duration,
    sleepers: Vec<(Duration, Waker)>,
}

thread_local! {
    // All tasks of one schedule run on one thread.
    static TIME: RefCell<Time> = RefCell::default();
}

/// Begins anew.
pub(crate) fn reset() {
    TIME.with_borrow_mut(|time| *time = Time::default());
}

/// Lets time pass.
pub fn advance(span: Duration) {
    point();
    let due = TIME.with_borrow_mut(|time| {
        time.now += span;
        let now = time.now;
        time.sleepers.extract_if(.., |(until, _)| *until <= now).collect::<Vec<_>>()
    });
    due.into_iter().for_each(|(_, sleeper)| sleeper.wake());
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// This moment.
    pub fn now() -> Self {
        Self(TIME.with_borrow(|time| time.now))
    }

    /// How long ago it was.
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// How long after `earlier` it is; zero if it is not.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `span` earlier, if there is one.
    pub fn checked_sub(self, span: Duration) -> Option<Self> {
        self.0.checked_sub(span).map(Self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0 + span)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0 - span)
    }
}

/// Resolves when `span` has passed.
pub fn sleep(span: Duration) -> Sleep {
    sleep_until(Instant::now() + span)
}

/// Resolves at this moment.
pub fn sleep_until(until: Instant) -> Sleep {
    Sleep(until)
}

/// See [`sleep_until`].
#[derive(Debug)]
pub struct Sleep(Instant);

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        point();
        TIME.with_borrow_mut(|time| {
            if self.0.0 <= time.now {
                return Poll::Ready(());
            }
            time.sleepers.push((self.0.0, context.waker().clone()));
            Poll::Pending
        })
    }
}

/// The store's clock by this time.
#[derive(Debug)]
pub struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> StoreTime {
        START.after(TIME.with_borrow(|time| time.now))
    }
}
