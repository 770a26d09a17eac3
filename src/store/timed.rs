//! Answers with the time from which a lease's TTL counts.

use crate::domain::command::{Outcome, WrongOutcome};
use tokio::time::Instant;

/// The answer to a command, and when the command was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed<T> {
    /// A moment before the store acted. What a lease has left counts from here, not from when the store was asked:
    /// that may be long before.
    pub sent: Instant,
    /// The answer.
    pub outcome: T,
}

impl<T> Timed<T> {
    /// The outcome of an action that is carried out here and now.
    pub fn act(act: impl FnOnce() -> T) -> Self {
        let sent = Instant::now();
        Self { sent, outcome: act() }
    }
}

impl Timed<Outcome> {
    /// The outcome of a command of which the caller knows the kind.
    pub fn of<T: TryFrom<Outcome, Error = WrongOutcome>>(self) -> Result<Timed<T>, WrongOutcome> {
        let Self { sent, outcome } = self;
        T::try_from(outcome).map(|outcome| Timed { sent, outcome })
    }
}
