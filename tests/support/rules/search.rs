//! What an exhaustive search needs to know of a world: when two are the same, and which leases may be named.

use super::{SECOND, World};

impl World {
    /// The leases that a command may name: those that the oracle remembers, the newest first.
    pub(crate) fn leases(&self) -> Vec<u32> {
        self.oracle.leases()
    }

    /// A number for the next lease of this request that nobody remembers, so that a search meets the same states again.
    pub(crate) fn unused_lease(&self, request: u8) -> u32 {
        let used = self.oracle.leases();
        (1..).map(|number| u32::from(request) * 16 + number).find(|number| !used.contains(number)).unwrap()
    }

    /// Forgets which leases ended, as far as the lock has forgotten it: their numbers are used again.
    pub(crate) fn forget_leases(&mut self) {
        self.history.forget_leases(&self.oracle.leases());
    }

    /// All that the future depends on, the same for states that differ only in their date. Fields that differ without
    /// consequence (a place's number) make two of one state: that costs time, and misses nothing.
    pub(crate) fn key(&self) -> String {
        let text = format!("{:?}{:?}", self.lock, self.oracle);
        let mut rest = text.as_str();
        let mut key = String::with_capacity(text.len());
        // The order of a hash map's entries means nothing.
        if let Some((before, waiters, after)) = cut(rest, "waiters: {", "}, line: ") {
            let mut waiters: Vec<_> =
                waiters.split(", RequestId").map(|it| it.trim_start_matches("RequestId")).collect();
            waiters.sort_unstable();
            self.write_undated(before, &mut key);
            waiters.iter().for_each(|waiter| self.write_undated(waiter, &mut key));
            rest = after;
        }
        self.write_undated(rest, &mut key);
        key
    }

    fn write_undated(&self, text: &str, key: &mut String) {
        let mut rest = text;
        while let Some((before, digits, after)) = cut(rest, "StoreTime(", ")") {
            self.write_untold(before, key);
            let distance = i128::from(digits.parse::<u64>().unwrap()) - i128::from(self.now.as_micros());
            // What is longer past than the longest memory is past.
            key.push_str(&distance.max(-11 * i128::from(SECOND)).to_string());
            rest = after;
        }
        self.write_untold(rest, key);
    }

    /// Tokens count by their order only, and that is the same in all states.
    fn write_untold(&self, text: &str, key: &mut String) {
        let mut rest = text;
        while let Some((before, _, after)) = cut(rest, "FencingToken(", ")") {
            key.push_str(before);
            rest = after;
        }
        key.push_str(rest);
    }
}

fn cut<'a>(text: &'a str, from: &str, to: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let (before, rest) = text.split_once(from)?;
    let (between, after) = rest.split_once(to)?;
    Some((before, between, after))
}
