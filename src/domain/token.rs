//! Fencing tokens and the sequencer that draws them.
//!
//! A sequencer serves many locks, so that its size does not grow with the number of lock names. Its counter keeps
//! tokens rising: each is `max(counter + 1, min_token)`. A store that forgets its counter when it ends begins above the
//! clock, in microseconds: no sequencer draws a token each microsecond, so the clock is ahead of what is forgotten.

use super::{
    limits::{MIN_TOKEN_AHEAD_MAX, TOKEN_END, TOKEN_SKIP},
    time::StoreTime,
};
use std::{fmt, num::NonZeroU64};

/// A number that grows with every grant of a lock. Above 0 and below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The token of this number, if it can be one.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(it) if number < TOKEN_END => Some(Self(it)),
            _ => None,
        }
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// The number space is used up: the clock is beyond the year 2255, or a floor was far too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fencing tokens of this partition are used up: no grant can be made")]
pub struct TokensExhausted;

/// The highest `min_token` that a request may ask for when a wall clock shows `now`.
pub fn min_token_max(now: StoreTime) -> u64 {
    // mutant: min_token relative
    now.after(MIN_TOKEN_AHEAD_MAX).as_micros().min(TOKEN_END - 1)
}

/// Draws the tokens of many locks.
#[derive(Clone, Debug)]
pub struct Sequencer {
    counter: u64,
}

impl Sequencer {
    /// A sequencer that goes on from the highest token that may have been drawn.
    pub const fn after(counter: u64) -> Self {
        Self { counter }
    }

    /// The sequencer of a store that knows nothing of earlier tokens, when a wall clock shows `now`.
    pub fn above_clock(now: StoreTime) -> Self {
        // mutant: no skip
        let start = now.after(TOKEN_SKIP);
        Self::after(start.as_micros())
    }

    /// The highest token drawn.
    pub const fn counter(&self) -> u64 {
        self.counter
    }

    /// Draws the next token. It is higher than every token drawn before and at least `min_token`.
    pub fn draw(&mut self, min_token: u64) -> Result<FencingToken, TokensExhausted> {
        // mutant: token equal instead of greater
        let next = self.counter.saturating_add(1);
        let token = FencingToken::new(next.max(min_token)).ok_or(TokensExhausted)?;
        assert!(token.get() > self.counter, "a sequencer never repeats or falls");
        self.counter = token.get();
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_800_000_000_000_000;

    fn draw(sequencer: &mut Sequencer, min_token: u64) -> u64 {
        sequencer.draw(min_token).unwrap().get()
    }

    #[test]
    fn tokens_go_on_from_the_counter_or_begin_a_minute_above_the_clock() {
        let mut sequencer = Sequencer::after(41);
        assert_eq!((draw(&mut sequencer, 0), draw(&mut sequencer, 0)), (42, 43));
        let mut sequencer = Sequencer::above_clock(StoreTime::from_micros(T));
        assert_eq!((draw(&mut sequencer, 0), draw(&mut sequencer, 0)), (T + 60_000_001, T + 60_000_002));
    }

    #[test]
    fn restarts_that_forget_everything_still_rise() {
        let mut highest = 0;
        for restart in 0..100_u64 {
            let mut sequencer = Sequencer::above_clock(StoreTime::from_micros(T + restart * 1_001));
            for _ in 0..1_000 {
                let token = draw(&mut sequencer, 0);
                assert!(token > highest);
                highest = token;
            }
        }
    }

    #[test]
    fn a_min_token_raises_and_never_lowers() {
        let mut sequencer = Sequencer::after(41);
        assert_eq!(draw(&mut sequencer, 1_000), 1_000);
        assert_eq!((draw(&mut sequencer, 5), sequencer.counter()), (1_001, 1_001));
    }

    #[test]
    fn a_min_token_may_lie_a_day_above_the_clock_and_is_a_token() {
        assert_eq!(min_token_max(StoreTime::from_micros(T)), T + 86_400_000_000);
        assert_eq!(min_token_max(StoreTime::from_micros(TOKEN_END)), TOKEN_END - 1);
    }

    #[test]
    fn tokens_are_exact_in_a_double_or_not_granted() {
        let mut sequencer = Sequencer::after(41);
        assert_eq!(sequencer.draw(TOKEN_END), Err(TokensExhausted));
        assert_eq!(draw(&mut sequencer, 0), 42, "what was refused has used nothing up");
        assert_eq!(draw(&mut sequencer, TOKEN_END - 1), TOKEN_END - 1);
        assert_eq!(sequencer.draw(0), Err(TokensExhausted));
        assert_eq!(FencingToken::new(0), None);
        assert_eq!(FencingToken::new(TOKEN_END), None);
    }
}
