//! Simulated time: `tokio::time` for the server's sources, and their clock. A test advances it.

use crate::{clock::Clock, domain::time::StoreTime, sync::point};
use std::{
    cell::RefCell,
    future::Future,
    ops::{Add, Sub},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The initial time of the store.
pub const START: StoreTime = StoreTime::from_micros(1_800_000_000_000_000);

#[derive(Default)]
struct Time {
    now: Duration,
    sleepers: Vec<(Duration, Waker)>,
}

thread_local! {
    // All tasks of a schedule run on one thread.
    static TIME: RefCell<Time> = RefCell::default();
}

/// Resets the time for a new schedule.
pub(crate) fn reset() {
    TIME.with_borrow_mut(|time| *time = Time::default());
}

/// Advances the time and wakes sleepers that are due.
pub fn advance(span: Duration) {
    point();
    let due = TIME.with_borrow_mut(|time| {
        time.now += span;
        let now = time.now;
        time.sleepers.extract_if(.., |(until, _)| *until <= now).collect::<Vec<_>>()
    });
    due.into_iter().for_each(|(_, sleeper)| sleeper.wake());
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The current time.
    pub fn now() -> Self {
        Self(TIME.with_borrow(|time| time.now))
    }

    /// The time since this point.
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// The time since `earlier`; zero if that is later.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `span` earlier, if there is one.
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

/// Resolves after `span`.
pub fn sleep(span: Duration) -> Sleep {
    sleep_until(Instant::now() + span)
}

/// Resolves at this time.
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

/// The store's clock, driven by the simulated time.
#[derive(Debug)]
pub struct SimulatedClock;

impl Clock for SimulatedClock {
    fn now(&self) -> StoreTime {
        START.after(TIME.with_borrow(|time| time.now))
    }
}
