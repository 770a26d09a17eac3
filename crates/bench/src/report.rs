//! The report: one JSON object for programs, tables for people.

use super::{
    contenders::{Contender, compared},
    figures::{Figures, number},
    plan::{Plan, Workload},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt::Write, time::SystemTime};

/// All rounds of one measured system in one workload.
#[derive(Debug)]
pub(super) struct Entry {
    pub contender: Contender,
    rounds: Vec<Figures>,
    errors: BTreeMap<String, u64>,
    /// Why rounds could not be measured at all.
    failures: Vec<String>,
}

/// The report of a run.
#[derive(Debug)]
pub(crate) struct Report {
    about: Value,
    workloads: Vec<(Workload, Vec<Entry>)>,
}

impl Entry {
    pub(super) fn new(contender: Contender) -> Self {
        Self { contender, rounds: Vec::new(), errors: BTreeMap::new(), failures: Vec::new() }
    }

    pub(super) fn add(&mut self, figures: Figures, errors: BTreeMap<String, u64>) {
        self.rounds.push(figures);
        for (error, count) in errors {
            *self.errors.entry(error).or_default() += count;
        }
    }

    pub(super) fn fail(&mut self, why: String) {
        self.failures.push(why);
    }

    fn figures(&self) -> Figures {
        Figures::folded(&self.rounds)
    }

    fn json(&self) -> Value {
        let mut json = self.figures().json();
        if !self.errors.is_empty() {
            json.insert("error_messages".to_owned(), json!(self.errors));
        }
        if !self.failures.is_empty() {
            json.insert("failures".to_owned(), json!(self.failures));
        }
        Value::Object(json)
    }

    /// The number of errors and failed rounds.
    fn errors(&self) -> f64 {
        self.figures().get("errors").unwrap_or_default() + self.failures.len() as f64
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, redis: Option<&str>) -> Self {
        let about = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "optimised": !cfg!(debug_assertions),
            "date": date(),
            "machine": machine(),
            "redis": redis,
            "parameters": {
                "target": plan.target.name(),
                "via": plan.via,
                "mode": plan.mode,
                "workloads": plan.workloads,
                "clients": plan.clients,
                "waiters": plan.waiters,
                "leases": plan.leases,
                "streams": plan.streams,
                "ttl_s": number(plan.ttl.as_secs_f64()),
                "connections": plan.connections,
                "replicas": plan.replicas,
                "duration_s": number(plan.duration.as_secs_f64()),
                "warmup_s": number(plan.warmup.as_secs_f64()),
                "rounds": plan.rounds,
                "rate_per_s": plan.rate,
                "names": if plan.fresh_names { "fresh" } else { "own" },
                "redis_options": plan.redis_options,
            },
        });
        Self { about, workloads: Vec::new() }
    }

    pub(super) fn add(&mut self, workload: Workload, entries: Vec<Entry>) {
        self.workloads.push((workload, entries));
    }

    /// The number of Fencepost's operations, and of errors and failed rounds of all systems.
    pub(crate) fn totals(&self) -> (f64, f64) {
        let ours = self.workloads.iter().filter_map(|(_, entries)| own(entries));
        let operations = ours.filter_map(|entry| entry.figures().get("operations")).sum();
        (operations, self.workloads.iter().flat_map(|(_, entries)| entries).map(Entry::errors).sum())
    }

    /// A JSON object with every figure.
    pub(crate) fn json(&self) -> Value {
        let mut json = self.about.clone();
        let workloads = self.workloads.iter().map(|(workload, entries)| {
            let by = |keep: fn(&Entry) -> bool| {
                let chosen = entries.iter().filter(|entry| keep(entry));
                chosen.map(|entry| (entry.contender.key().to_owned(), entry.json())).collect::<Map<_, _>>()
            };
            let mut one = by(|entry| entry.contender == Contender::Fencepost);
            one.insert("baselines".to_owned(), by(|entry| entry.contender != Contender::Fencepost).into());
            let ratios = ratios(*workload, entries).into_iter().map(|(baseline, ratios)| {
                let ratios = ratios.into_iter().map(|(figure, ratio)| (figure.to_owned(), number(ratio)));
                (baseline.key().to_owned(), Value::Object(ratios.collect()))
            });
            one.insert("ratios".to_owned(), Value::Object(ratios.collect()));
            (workload.name().to_owned(), Value::Object(one))
        });
        json["workloads"] = Value::Object(workloads.collect());
        json["errors"] = number(self.totals().1);
        json
    }

    /// The report as tables.
    pub(crate) fn text(&self) -> String {
        let machine = &self.about["machine"];
        let mut text = format!(
            "fencepost {}, {}, {} CPUs ({})",
            env!("CARGO_PKG_VERSION"),
            self.about["date"].as_str().unwrap_or_default(),
            machine["cpus"],
            machine["cpu"].as_str().unwrap_or("unknown")
        );
        if let Some(redis) = self.about["redis"].as_str() {
            _ = write!(text, ", {redis}");
        }
        if cfg!(debug_assertions) {
            text.push_str("\nnot an optimised build: the figures are meaningless");
        }
        for (workload, entries) in &self.workloads {
            _ = write!(text, "\n\n{}\n{}", workload.name(), table(entries));
            for (baseline, ratios) in ratios(*workload, entries) {
                let ratios: Vec<_> = ratios.iter().map(|(name, ratio)| format!("{name} {}", short(*ratio))).collect();
                _ = write!(text, "\nratio to {}: {}", baseline.name(), ratios.join(", "));
            }
            for entry in entries {
                let errors = entry.errors.iter().map(|(error, count)| format!("{count} times {error}"));
                for error in errors.chain(entry.failures.iter().cloned()) {
                    _ = write!(text, "\n{} failed: {error}", entry.contender.name());
                }
            }
        }
        text
    }
}

fn own(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().find(|entry| entry.contender == Contender::Fencepost)
}

/// The ratios of Fencepost's figures to those of each baseline.
fn ratios(workload: Workload, entries: &[Entry]) -> Vec<(Contender, Vec<(&'static str, f64)>)> {
    let Some(ours) = own(entries).map(Entry::figures) else { return Vec::new() };
    let others = entries.iter().filter(|entry| entry.contender != Contender::Fencepost);
    let ratios = others.map(|other| {
        let theirs = other.figures();
        let ratio = |name: &&'static str| Some((*name, ours.get(name)? / theirs.get(name).filter(|it| *it != 0.0)?));
        (other.contender, compared(workload, other.contender).iter().filter_map(ratio).collect::<Vec<_>>())
    });
    ratios.filter(|(_, ratios)| !ratios.is_empty()).collect()
}

/// A line for each figure, a column for each measured system.
fn table(entries: &[Entry]) -> String {
    let figures: Vec<Figures> = entries.iter().map(Entry::figures).collect();
    let mut names: Vec<&'static str> = Vec::new();
    for name in figures.iter().rev().flat_map(Figures::names) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let first = names.iter().map(|name| name.len()).max().unwrap_or_default();
    let mut text = " ".repeat(first);
    for entry in entries {
        _ = write!(text, "  {:>20}", entry.contender.name());
    }
    for name in names {
        _ = write!(text, "\n{name:first$}");
        for figures in &figures {
            _ = write!(text, "  {:>20}", figures.get(name).map_or_else(|| "-".to_owned(), short));
        }
    }
    text
}

/// Three significant digits; all digits before the point.
fn short(value: f64) -> String {
    match value.abs() {
        whole if whole.fract() == 0.0 => format!("{value:.0}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// For display only.
#[allow(clippy::disallowed_methods)]
fn date() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

fn machine() -> Value {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let cpu = line.map(|(_, name)| name.trim().to_owned());
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({ "cpus": cpus, "cpu": cpu, "system": std::env::consts::OS, "architecture": std::env::consts::ARCH })
}

#[cfg(test)]
mod tests {
    use super::super::figures::Fold;
    use super::*;

    fn entry(contender: Contender, rates: &[f64]) -> Entry {
        let mut entry = Entry::new(contender);
        for rate in rates {
            let mut figures = Figures::default();
            figures.put("rate_per_s", Fold::Median, *rate);
            figures.put("errors", Fold::Sum, 1.0);
            entry.add(figures, BTreeMap::from([("Internal: broken".to_owned(), 1)]));
        }
        entry
    }

    #[test]
    fn ratios_compare_the_medians() {
        let entries =
            [entry(Contender::EchoUnary, &[400.0, 200.0, 300.0]), entry(Contender::Fencepost, &[90.0, 150.0, 900.0])];
        assert_eq!(ratios(Workload::Pairs, &entries), [(Contender::EchoUnary, vec![("rate_per_s", 0.5)])]);
        let text = table(&entries);
        assert!(text.lines().any(|line| line.split_whitespace().eq(["rate_per_s", "300", "150"])), "{text}");
    }

    #[test]
    fn errors_and_failed_rounds_are_reported_and_counted() {
        let mut report = Report { about: json!({}), workloads: Vec::new() };
        let mut broken = Entry::new(Contender::EchoUnary);
        broken.fail("no such thing".to_owned());
        report.add(Workload::Pairs, vec![broken, entry(Contender::Fencepost, &[1.0, 2.0])]);
        assert_eq!(report.totals(), (0.0, 3.0));
        let text = report.text();
        assert!(text.contains("2 times Internal: broken") && text.contains("no such thing"), "{text}");
        let json = report.json();
        assert_eq!(json["errors"], 3);
        assert_eq!(json["workloads"]["pairs"]["baselines"]["echo_unary"]["failures"][0], "no such thing");
    }
}
