//! What callers use of their quotas, and what is above them.

use super::{AccessMode, Label};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

/// The most callers that metrics name.
const CALLERS_NAMED: usize = 100;
/// The name of all others.
const OTHERS: &str = "other";

type Labels = Vec<(&'static str, String)>;

/// What callers use of their quotas, and what is above them.
#[derive(Debug)]
pub struct QuotaMetrics {
    exceeded: Family<Labels, Counter>,
    used: Family<Labels, Gauge>,
    /// Callers that metrics name: the first ones.
    named: Mutex<HashSet<String>>,
}

impl QuotaMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (exceeded, used) = (Family::default(), Family::default());
        let help = "Operations above a quota: refused, or only counted in mode observe, by caller and limit";
        registry.register("quota_exceeded", help, exceeded.clone());
        let help = "What callers with a quota use now, by caller and limit";
        registry.register("quota_used", help, used.clone());
        Self { exceeded, used, named: Mutex::default() }
    }

    /// Counts an operation above this limit.
    pub fn exceeded(&self, caller: &str, limit: &'static str, mode: AccessMode) {
        let labels = vec![("caller", self.name(caller)), ("limit", limit.to_owned())];
        let labels = [labels, vec![(AccessMode::NAME, mode.text().to_owned())]].concat();
        self.exceeded.get_or_create(&labels).inc();
    }

    /// Sets what callers use: who, of what, and how much.
    pub fn set_used(&self, used: impl IntoIterator<Item = (String, &'static str, u32)>) {
        self.used.clear();
        for (caller, limit, count) in used {
            let labels = vec![("caller", self.name(&caller)), ("limit", limit.to_owned())];
            self.used.get_or_create(&labels).inc_by(i64::from(count));
        }
    }

    fn name(&self, caller: &str) -> String {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if !named.contains(caller) {
            if named.len() >= CALLERS_NAMED {
                return OTHERS.to_owned();
            }
            named.insert(caller.to_owned());
        }
        caller.to_owned()
    }
}

impl Default for QuotaMetrics {
    /// Metrics that nobody scrapes.
    fn default() -> Self {
        Self::register(&mut Registry::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_callers_are_named_and_all_others_are_one() {
        let metrics = QuotaMetrics::default();
        let uses = (0..CALLERS_NAMED + 7).map(|number| (format!("caller {number}"), "waits", 2));
        metrics.set_used(uses);
        let of = |caller: &str| {
            let labels = vec![("caller", caller.to_owned()), ("limit", "waits".to_owned())];
            metrics.used.get_or_create(&labels).get()
        };
        assert_eq!((of("caller 0"), of(OTHERS), of("caller 103")), (2, 14, 0));
        metrics.set_used([("caller 5".to_owned(), "waits", 1)]);
        assert_eq!((of("caller 0"), of("caller 5"), of(OTHERS)), (0, 1, 0));
    }
}
