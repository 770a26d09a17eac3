//! For exhaustive searches: when two worlds are equal, and which leases commands may name.

use super::{SECOND, World};

impl World {
    /// The leases that a command may name: those that the oracle remembers, newest first.
    pub(crate) fn leases(&self) -> Vec<u32> {
        self.oracle.leases()
    }

    /// A forgotten number for the next lease of this request, so that a search finds the same states again.
    pub(crate) fn unused_lease(&self, request: u8) -> u32 {
        let used = self.oracle.leases();
        (1..).map(|number| u32::from(request) * 16 + number).find(|number| !used.contains(number)).unwrap()
    }

    /// Forgets the ended leases that the lock has forgotten, because their numbers are reused.
    pub(crate) fn forget_leases(&mut self) {
        self.history.forget_leases(&self.oracle.leases());
    }

    /// The state that future results depend on, independent of the date. Irrelevant differences (the number of a queue
    /// position) make two keys for one state. That costs time, but misses nothing.
    pub(crate) fn key(&self) -> String {
        let text = format!("{:?}{:?}", self.lock, self.oracle);
        let text = with_ranks(&text);
        let mut rest = text.as_str();
        let mut key = String::with_capacity(text.len());
        // The order of the entries of a hash map is irrelevant.
        let queue = cut(rest, "waiters: {", "}, by_server: ");
        assert!(queue.is_some() || !text.contains("queue: Some("), "the Debug text of a queue has changed");
        if let Some((before, waiters, after)) = queue {
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
            key.push_str(before);
            let distance = i128::from(digits.parse::<u64>().unwrap()) - i128::from(self.now.as_micros());
            // Times beyond the longest memory are equal.
            key.push_str(&distance.max(-11 * i128::from(SECOND)).to_string());
            rest = after;
        }
        key.push_str(rest);
    }
}

/// The text with ranks in place of tokens: only their order matters.
fn with_ranks(text: &str) -> String {
    let tokens = || {
        let numbers = text.split("FencingToken(").skip(1).filter_map(|it| it.split_once(')'));
        numbers.map(|(number, after)| (number.parse::<u64>().unwrap(), after))
    };
    let mut ranks: Vec<_> = tokens().map(|(token, _)| token).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut ranked = text.split("FencingToken(").next().unwrap_or_default().to_owned();
    for (token, after) in tokens() {
        ranked.push_str(&format!("#{}{after}", ranks.partition_point(|it| *it < token)));
    }
    ranked
}

fn cut<'a>(text: &'a str, from: &str, to: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let (before, rest) = text.split_once(from)?;
    let (between, after) = rest.split_once(to)?;
    Some((before, between, after))
}
