//! When two states are equal: times count as distances to now, and all times of the distant past are equal.

use super::state::State;
use fencepost::testing::domain::time::StoreTime;
use std::{
    fmt::{Debug, Write},
    hash::{Hash, Hasher},
};

/// All times longer ago than this are equal; the longest memory is 10 s. The 30 s of silence after which a replica is
/// gone are longer, but they pass by a leap and not by ticks.
const PAST: i64 = 11_000_000;

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl State {
    fn key(&self) -> String {
        // With bounded time, the clock of a store that restarts may be behind old tokens.
        let past = if self.budget.ticks.is_some() { i64::MAX } else { PAST };
        let mut text = String::with_capacity(4096);
        let mut key = String::with_capacity(4096);
        let mut put = |now: StoreTime, part: &dyn Debug| {
            text.clear();
            write!(text, "{part:?}").expect("a String grows");
            undated(&text, now, past, &mut key);
        };
        let Self { now, store, clients, replicas, network, budget, ghost } = self;
        let clock = store.clock(*now);
        put(*now, &(clients, replicas, network, budget, &ghost.for_key()));
        put(clock, &(&store.memory.replicas, &store.memory.heard, store.behind));
        if budget.ticks.is_some() {
            // With bounded time, the distance of tokens to the clock matters.
            let highest = |token: u64| StoreTime::from_micros(token);
            put(clock, &(&store.memory.sequencer, highest(ghost.highest_token)));
        }
        text.clear();
        write!(text, "{:?}", store.memory.lock).expect("a String grows");
        // The order of the entries of a hash map is irrelevant.
        let queue = cut(&text, "waiters: {", "}, by_server: ");
        assert!(queue.is_some() || !text.contains("queue: Some("), "the Debug text of a queue has changed");
        if let Some((before, waiters, after)) = queue {
            let mut waiters: Vec<_> =
                waiters.split(", RequestId").map(|it| it.trim_start_matches("RequestId")).collect();
            waiters.sort_unstable();
            undated(before, clock, past, &mut key);
            waiters.iter().for_each(|waiter| undated(waiter, clock, past, &mut key));
            undated(after, clock, past, &mut key);
        } else {
            undated(&text, clock, past, &mut key);
        }
        key
    }
}

/// Writes times as distances, and leaves tokens out: only their order matters, which is that of the grants.
fn undated(text: &str, now: StoreTime, past: i64, key: &mut String) {
    const TIME: &str = "StoreTime(";
    const TOKEN: &str = "FencingToken(";
    let mut rest = text;
    while let Some(at) = rest.find(['(', ':']) {
        let (before, after) = rest.split_at(at + 1);
        key.push_str(before);
        rest = after;
        let is_counter = before.ends_with("counter:");
        if before.ends_with(TIME) || is_counter {
            let digits = rest.trim_start();
            let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
            let moment: i64 = digits[..end].parse().expect("a time is a number");
            let distance = moment - i64::try_from(now.as_micros()).expect("a date of this century");
            let distance = distance.max(-past);
            write!(key, "{distance}").expect("a String grows");
            rest = &digits[end..];
        } else if before.ends_with(TOKEN) {
            rest = rest.trim_start_matches(|it: char| it.is_ascii_digit());
        }
    }
    key.push_str(rest);
}

fn cut<'a>(text: &'a str, from: &str, to: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let (before, rest) = text.split_once(from)?;
    let (between, after) = rest.split_once(to)?;
    Some((before, between, after))
}
