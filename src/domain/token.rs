//! Fencing tokens and the sequencer that draws them.
//!
//! A sequencer serves many locks, so that its size does not grow with the number of lock names. Its counter keeps
//! tokens rising: each is `max(counter + 1, floors)`. Where the counter may be forgotten, the clock is a floor: `now`,
//! or after a change of incarnation `max(counter + 1 s, now + 60 s)`, in microseconds, which covers what a store that
//! lost its memory forgot.

use super::{
    ids::Incarnation,
    limits::{MIN_TOKEN_AHEAD_MAX, TOKEN_END, TOKEN_SKIP},
    time::{StoreTime, micros},
};
use std::{fmt, time::Duration};

/// A number that grows with every grant of a lock. Above 0 and below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token of this number, if it can be one.
    pub const fn new(number: u64) -> Option<Self> {
        if 0 < number && number < TOKEN_END { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
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

/// Draws the tokens of many locks.
#[derive(Clone, Debug)]
pub struct Sequencer {
    counter: u64,
    memory: Memory,
}

/// How much a sequencer can rely on its counter.
#[derive(Clone, Debug)]
enum Memory {
    /// Each token that was ever answered is at most the counter.
    Complete,
    /// The counter ends with the incarnation of its last draw.
    OfIncarnation(Option<Incarnation>),
}

/// The incarnation has ended: the server must reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftBehind;

impl Sequencer {
    /// A sequencer without memory: its first draw skips ahead of every token that an earlier incarnation may have
    /// granted.
    pub const fn forgotten() -> Self {
        Self { counter: 0, memory: Memory::OfIncarnation(None) }
    }

    /// A sequencer that goes on from the highest token that may have been drawn. It needs no clock.
    pub const fn after(counter: u64) -> Self {
        Self { counter, memory: Memory::Complete }
    }

    /// The highest token drawn.
    pub const fn counter(&self) -> u64 {
        self.counter
    }

    /// Refuses an incarnation that the store has left for the `present` one, so that a connection to an older
    /// incarnation cannot grant. A partition that has seen no other incarnation need not ask for the present one.
    pub fn check(&self, incarnation: Incarnation, present: Incarnation) -> Result<(), LeftBehind> {
        match self.memory {
            Memory::OfIncarnation(Some(last)) if last != incarnation && incarnation != present => Err(LeftBehind),
            Memory::OfIncarnation(_) | Memory::Complete => Ok(()),
        }
    }

    /// Draws the next token. It is higher than every token drawn before and at least `min_token`.
    pub fn draw(
        &mut self,
        now: StoreTime,
        incarnation: Incarnation,
        min_token: u64,
    ) -> Result<FencingToken, TokensExhausted> {
        let floor = match self.memory {
            Memory::Complete => 0,
            Memory::OfIncarnation(Some(last)) if last == incarnation => now.as_micros(),
            Memory::OfIncarnation(_) => {
                // mutant: no skip
                let skip = now.after(TOKEN_SKIP).as_micros();
                // mutant: no second when ahead
                let ahead = self.counter.saturating_add(micros(Duration::from_secs(1)));
                skip.max(ahead)
            }
        };
        // mutant: token equal instead of greater
        let next = self.counter.saturating_add(1);
        let number = next.max(floor).max(min_token);
        let token = FencingToken::new(number).ok_or(TokensExhausted)?;
        assert!(token.get() > self.counter, "a sequencer never repeats or falls");
        self.counter = number;
        if let Memory::OfIncarnation(last) = &mut self.memory {
            *last = Some(incarnation);
        }
        Ok(token)
    }

    /// The highest `min_token` that a request may ask for at `now`. The time of a sequencer without a clock is no date:
    /// there the server that takes the request compares it with its own clock.
    pub fn min_token_max(&self, now: StoreTime) -> u64 {
        if matches!(self.memory, Memory::Complete) {
            return TOKEN_END - 1;
        }
        // mutant: min_token relative
        now.after(MIN_TOKEN_AHEAD_MAX).as_micros().min(TOKEN_END - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const A: Incarnation = Incarnation(Uuid::from_u128(1));
    const B: Incarnation = Incarnation(Uuid::from_u128(2));
    const C: Incarnation = Incarnation(Uuid::from_u128(3));
    const T: u64 = 1_800_000_000_000_000;

    fn draw(sequencer: &mut Sequencer, now: u64, incarnation: Incarnation, min_token: u64) -> u64 {
        sequencer.draw(StoreTime::from_micros(now), incarnation, min_token).unwrap().get()
    }

    #[test]
    fn the_first_draw_skips_a_minute_and_the_clock_takes_over_later() {
        let mut sequencer = Sequencer::forgotten();
        assert_eq!(draw(&mut sequencer, T, A, 0), T + 60_000_000);
        assert_eq!(draw(&mut sequencer, T + 5, A, 0), T + 60_000_001);
        assert_eq!(draw(&mut sequencer, T + 70_000_000, A, 0), T + 70_000_000);
        assert_eq!(draw(&mut sequencer, T, A, 0), T + 70_000_001, "a clock set back changes nothing");
    }

    #[test]
    fn a_new_incarnation_skips_once() {
        let mut sequencer = Sequencer::forgotten();
        let first = draw(&mut sequencer, T, A, 0);
        assert_eq!(draw(&mut sequencer, T, B, 0), first + 1_000_000, "ahead of the clock: the counter plus 1 s");
        assert_eq!(draw(&mut sequencer, T, B, 0), first + 1_000_001);
        assert_eq!(sequencer.check(A, B), Err(LeftBehind), "there is no way back");
        assert_eq!((sequencer.check(B, B), sequencer.check(B, C), sequencer.check(C, C)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(draw(&mut sequencer, T + 90_000_000, C, 0), T + 150_000_000, "behind it: the clock plus 60 s");
    }

    #[test]
    fn restarts_that_forget_everything_still_rise() {
        let mut highest = 0;
        for restart in 0..100_u64 {
            let mut sequencer = Sequencer::forgotten();
            for grant in 0..1_000 {
                let token = draw(&mut sequencer, T + restart * 10_000 + grant, A, 0);
                assert!(token > highest);
                highest = token;
            }
        }
    }

    #[test]
    fn a_floor_raises_and_never_lowers() {
        let mut sequencer = Sequencer::forgotten();
        assert_eq!(draw(&mut sequencer, T, A, T + 61_000_000), T + 61_000_000);
        assert_eq!(draw(&mut sequencer, T, A, 5), T + 61_000_001);
        assert_eq!(sequencer.min_token_max(StoreTime::from_micros(T)), T + 86_400_000_000);
        assert_eq!(sequencer.min_token_max(StoreTime::from_micros(TOKEN_END)), TOKEN_END - 1);
    }

    #[test]
    fn a_sequencer_that_forgets_nothing_goes_by_its_counter_and_by_what_requests_ask_for() {
        let mut sequencer = Sequencer::after(41);
        assert_eq!(draw(&mut sequencer, T, A, 0), 42, "the time is no floor");
        assert_eq!(draw(&mut sequencer, T, B, 0), 43, "nor is another incarnation");
        assert_eq!((sequencer.check(A, B), sequencer.check(C, B)), (Ok(()), Ok(())));
        assert_eq!(draw(&mut sequencer, 0, A, 1_000), 1_000);
        assert_eq!((draw(&mut sequencer, 0, A, 5), sequencer.counter()), (1_001, 1_001));
        assert_eq!(sequencer.min_token_max(StoreTime::default()), TOKEN_END - 1);
        assert_eq!(Sequencer::after(TOKEN_END - 1).draw(StoreTime::default(), A, 0), Err(TokensExhausted));
    }

    #[test]
    fn tokens_are_exact_in_a_double_or_not_granted() {
        let mut sequencer = Sequencer::forgotten();
        assert_eq!(draw(&mut sequencer, T, A, TOKEN_END - 1), TOKEN_END - 1);
        assert_eq!(sequencer.draw(StoreTime::from_micros(T), A, 0), Err(TokensExhausted));
        assert_eq!(FencingToken::new(0), None);
        assert_eq!(FencingToken::new(TOKEN_END), None);
    }
}
