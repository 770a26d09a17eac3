//! Figures with the rule that combines several rounds, and the computation of fairness and inversions.

use super::meter::Grant;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// How figures of several rounds are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// The median: a shared machine makes some rounds slower, never faster.
    Median,
    /// The maximum.
    Max,
    /// The sum.
    Sum,
}

/// The figures of one measured system, in display order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures(Vec<(&'static str, Fold, f64)>);

impl Figures {
    pub(super) fn put(&mut self, name: &'static str, fold: Fold, value: f64) {
        self.0.push((name, fold, value));
    }

    /// Omits unknown values.
    pub(super) fn put_known(&mut self, name: &'static str, fold: Fold, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.put(name, fold, value);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, ..)| *known == name).map(|(.., value)| *value)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, ..)| *name)
    }

    /// Combines several rounds.
    pub(super) fn folded(rounds: &[Self]) -> Self {
        let mut folded = Self::default();
        for (name, fold, _) in rounds.iter().flat_map(|round| &round.0) {
            if folded.get(name).is_some() {
                continue;
            }
            let mut values: Vec<f64> = rounds.iter().filter_map(|round| round.get(name)).collect();
            values.sort_by(f64::total_cmp);
            folded.put(
                name,
                *fold,
                match fold {
                    Fold::Median => median(&values),
                    Fold::Max => values.last().copied().unwrap_or_default(),
                    Fold::Sum => values.iter().sum(),
                },
            );
        }
        folded
    }

    pub(super) fn json(&self) -> Map<String, Value> {
        self.0.iter().map(|(name, _, value)| ((*name).to_owned(), number(*value))).collect()
    }
}

/// Integers stay integers; other values keep six significant digits.
pub(super) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        #[allow(clippy::cast_possible_truncation)] // checked above
        return Value::from(value as i64);
    }
    let scale = 10f64.powi(5).max(10f64.powf(5.0 - value.abs().log10().floor()));
    Value::from((value * scale).round() / scale)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Jain's fairness index of the clients' shares: 1 if all are equal, 1/n if one client has everything.
pub(super) fn jain(shares: &[u64]) -> Option<f64> {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The number of overtaken grants, and the longest time between. A grant is overtaken if another call was granted
/// before it although that call was sent after this one had arrived.
///
/// Grants are ordered by their tokens. A call arrived, at the latest, when its answer was received, less the time for
/// which the server reports to have held it. Calls that may have crossed on the way are not counted, so every counted
/// inversion is real, although close ones may be missed. A multi-threaded server may be preempted between the arrival
/// of a call and its entry in the queue; such inversions are counted too: they are few, and as long as a thread was not
/// scheduled.
pub(super) fn inversions(grants: &mut [Grant]) -> (u64, Duration) {
    grants.sort_unstable_by_key(|grant| grant.order);
    let (mut count, mut most) = (0, Duration::ZERO);
    let mut sent_last: Option<Instant> = None;
    for grant in grants {
        if let Some(sent) = sent_last.filter(|sent| *sent > grant.arrived) {
            count += 1;
            most = most.max(sent.duration_since(grant.arrived));
        }
        sent_last = sent_last.max(Some(grant.sent));
    }
    (count, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equal_shares_and_one_nth_for_a_single_winner() {
        assert_eq!(jain(&[7, 7, 7, 7]), Some(1.0));
        assert_eq!(jain(&[12, 0, 0, 0]), Some(0.25));
        assert!((jain(&[1, 2, 3]).unwrap() - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!(jain(&[0, 0]), None);
        assert_eq!(jain(&[]), None);
    }

    #[test]
    fn a_grant_is_overtaken_if_it_arrived_before_an_earlier_grant_was_sent() {
        let zero = Instant::now();
        let grant = |order, sent, arrived| Grant {
            order,
            client: 0,
            sent: zero + Duration::from_millis(sent),
            arrived: zero + Duration::from_millis(arrived),
        };
        let inversions = |grants: &mut [Grant]| {
            let (count, most) = inversions(grants);
            (count, most.as_millis())
        };
        assert_eq!(inversions(&mut []), (0, 0));
        let in_order = &mut [grant(1, 0, 1), grant(2, 2, 3), grant(3, 4, 5)];
        assert_eq!(inversions(in_order), (0, 0), "first come, first served");
        let overtaken = &mut [grant(2, 0, 1), grant(1, 3, 4)];
        assert_eq!(inversions(overtaken), (1, 2), "arrived before the other was sent, granted after it");
        assert_eq!(inversions(&mut [grant(2, 0, 3), grant(1, 2, 4)]), (0, 0), "they may have crossed on the way");
        let twice = &mut [grant(1, 9, 10), grant(2, 0, 1), grant(3, 2, 3), grant(4, 11, 12)];
        assert_eq!(inversions(twice), (2, 8), "one call overtook two");
    }

    #[test]
    fn rounds_are_combined_by_the_rule_of_each_figure() {
        let round = |rate, max, errors| {
            let mut figures = Figures::default();
            figures.put("rate", Fold::Median, rate);
            figures.put("max_us", Fold::Max, max);
            figures.put("errors", Fold::Sum, errors);
            figures
        };
        let folded = Figures::folded(&[round(30.0, 5.0, 1.0), round(10.0, 9.0, 0.0), round(20.0, 7.0, 2.0)]);
        assert_eq!(folded, round(20.0, 9.0, 3.0));
        assert_eq!(Figures::folded(&[round(30.0, 5.0, 1.0), round(10.0, 9.0, 0.0)]).get("rate"), Some(20.0));
        assert_eq!(Figures::folded(&[]), Figures::default());
    }

    #[test]
    fn numbers_keep_six_significant_digits() {
        assert_eq!(number(12.0).to_string(), "12");
        assert_eq!(number(1_234.567_891).to_string(), "1234.56789");
        assert_eq!(number(0.000_123_456_789).to_string(), "0.000123457");
    }
}
