//! The sum of many verdicts.

use crate::{
    history::Nanos,
    verdict::{Check, Counts, Verdict, Violation},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of violations kept for a history.
const KEPT: usize = 100;

/// The sum of many verdicts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of histories.
    pub histories: u64,
    /// The total duration.
    pub lasted: Nanos,
    /// Histories by topology.
    pub topologies: BTreeMap<String, u64>,
    /// The seeds, by topology.
    pub seeds: BTreeMap<String, Vec<u64>>,
    /// The sum of their counts.
    pub counts: Counts,
    /// Violations by check, including checks without any.
    pub violations: BTreeMap<Check, u64>,
    /// Excused violations by check and fault kind.
    pub excused: BTreeMap<Check, BTreeMap<String, u64>>,
    /// The histories with violations.
    pub bad: Vec<BadHistory>,
}

/// A history with violations. Its seed repeats it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadHistory {
    /// Its topology.
    pub topology: String,
    /// Its seed.
    pub seed: u64,
    /// The violations, at most a hundred.
    pub violations: Vec<Violation>,
}

impl Totals {
    /// Adds one more history.
    pub fn add(&mut self, verdict: &Verdict) {
        self.histories += 1;
        self.lasted += verdict.lasted;
        *self.topologies.entry(verdict.topology.clone()).or_default() += 1;
        self.seeds.entry(verdict.topology.clone()).or_default().push(verdict.seed);
        self.counts.add(&verdict.counts);
        for check in Check::ALL {
            let found = verdict.violations.iter().filter(|one| one.check == check).count() as u64;
            *self.violations.entry(check).or_default() += found;
        }
        for one in &verdict.excused {
            let kind = one.excuse.clone().unwrap_or_default();
            *self.excused.entry(one.check).or_default().entry(kind).or_default() += 1;
        }
        if !verdict.is_good() {
            let violations = verdict.violations.iter().take(KEPT).cloned().collect();
            self.bad.push(BadHistory { topology: verdict.topology.clone(), seed: verdict.seed, violations });
        }
    }

    /// Adds the totals of another process.
    pub fn merge(&mut self, other: Self) {
        self.histories += other.histories;
        self.lasted += other.lasted;
        add_each(&mut self.topologies, &other.topologies);
        for (topology, seeds) in other.seeds {
            self.seeds.entry(topology).or_default().extend(seeds);
        }
        self.counts.add(&other.counts);
        add_each(&mut self.violations, &other.violations);
        for (check, kinds) in other.excused {
            add_each(self.excused.entry(check).or_default(), &kinds);
        }
        self.bad.extend(other.bad);
    }

    /// The number of violations.
    #[must_use]
    pub fn violation_count(&self) -> u64 {
        self.violations.values().sum()
    }

    /// How often exclusion broke under faults that the promise excludes: reported beside a fenced store that lost
    /// nothing.
    #[must_use]
    pub fn exclusion_excused(&self) -> u64 {
        self.excused.get(&Check::C3).map_or(0, |kinds| kinds.values().sum())
    }

    /// Whether the control, which ignores tokens, lost an update. If not, the faults were too weak to show the effect
    /// of fencing.
    #[must_use]
    pub fn control_lost_updates(&self) -> bool {
        self.counts.control.lost > 0
    }

    /// Whether there are no violations, and the faults were strong enough to cause some.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.histories > 0 && self.violation_count() == 0 && self.control_lost_updates()
    }
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.grants += other.grants;
        self.steps += other.steps;
        self.rejected += other.rejected;
        self.raises += other.raises;
        self.checks += other.checks;
        self.readers_rejected += other.readers_rejected;
        add_each(&mut self.faults, &other.faults);
        self.inversions += other.inversions;
        self.fenced += other.fenced;
        self.control += other.control;
    }
}

fn add_each<K: Ord + Clone>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *sums.entry(key.clone()).or_default() += count;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::verdict::Writes;

    /// Two histories, one of them bad.
    pub(crate) fn two() -> [Verdict; 2] {
        let faults = BTreeMap::from([("sigkill-redis".to_owned(), 2)]);
        let control = Writes { taken: 200, lost: 25 };
        let counts = Counts { operations: 1_000, faults, control, inversions: 1, ..Counts::default() };
        let counts = Counts { fenced: Writes { taken: 150, lost: 0 }, steps: 400, rejected: 50, ..counts };
        let counts = Counts { raises: 30, checks: 70, readers_rejected: 8, ..counts };
        let violation = |check, excuse: Option<&str>| Violation {
            check,
            lock: Some("lock-1".into()),
            message: "something happened at 1.000000 s".into(),
            excuse: excuse.map(str::to_owned),
        };
        let good = Verdict {
            seed: 1,
            topology: "standalone".into(),
            lasted: 15_000_000_000,
            counts: counts.clone(),
            violations: Vec::new(),
            excused: vec![violation(Check::C3, Some("restore")), violation(Check::C7, Some("wipe"))],
        };
        let bad = Verdict { seed: 2, violations: vec![violation(Check::C5, None)], counts, ..good.clone() };
        [good, bad]
    }

    #[test]
    fn verdicts_add_up() {
        let mut totals = Totals::default();
        two().iter().for_each(|one| totals.add(one));
        assert_eq!((totals.histories, totals.lasted, totals.violation_count()), (2, 30_000_000_000, 1));
        assert_eq!(totals.counts.faults["sigkill-redis"], 4);
        assert_eq!((totals.counts.raises, totals.counts.checks, totals.counts.readers_rejected), (60, 140, 16));
        assert_eq!((totals.counts.control, totals.counts.operations), (Writes { taken: 400, lost: 50 }, 2_000));
        assert!((totals.counts.control.lost_percent() - 12.5).abs() < 1e-9);
        assert_eq!((totals.violations[&Check::C5], totals.violations[&Check::C1]), (1, 0));
        assert_eq!((totals.exclusion_excused(), totals.excused[&Check::C7]["wipe"]), (2, 2));
        assert_eq!(totals.seeds["standalone"], [1, 2]);
        assert_eq!(totals.bad.iter().map(|bad| bad.seed).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn merged_is_the_same_as_added() {
        let [first, second] = two();
        let (mut all, mut one, mut other) = (Totals::default(), Totals::default(), Totals::default());
        all.add(&first);
        all.add(&second);
        one.add(&first);
        other.add(&second);
        one.merge(other);
        assert_eq!(one, all);
    }

    #[test]
    fn good_means_no_violations_under_strong_faults() {
        let [mut good, bad] = two();
        let of = |verdict: &Verdict| {
            let mut totals = Totals::default();
            totals.add(verdict);
            totals.is_good()
        };
        assert!(of(&good) && !of(&bad) && !Totals::default().is_good());
        good.counts.control.lost = 0;
        assert!(!of(&good), "a control without losses proves nothing");
    }

    #[test]
    fn totals_survive_json() {
        let mut totals = Totals::default();
        two().iter().for_each(|one| totals.add(one));
        let text = serde_json::to_string(&totals).unwrap();
        assert_eq!(serde_json::from_str::<Totals>(&text).unwrap(), totals);
    }
}
