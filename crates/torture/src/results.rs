//! The results table in the repository: a line for each suite.

use crate::suite::State;
use anyhow::{Context, Result};
use std::{fs, path::Path, process::Command};

/// Faults made by the clients themselves.
const BY_CLIENTS: [&str; 4] = ["request-duplicated", "call-dropped", "operation-cancelled", "session-ended"];

/// Adds a line to the table.
pub(crate) fn add(path: &Path, state: &State) -> Result<()> {
    let mut table = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    if !table.ends_with('\n') {
        table.push('\n');
    }
    table.push_str(&line(state)?);
    Ok(fs::write(path, table)?)
}

fn line(state: &State) -> Result<String> {
    let totals = &state.totals;
    let counts = &totals.counts;
    let (mut injected, mut by_clients, mut least) = (0, 0, u64::MAX);
    for (kind, count) in &counts.faults {
        if BY_CLIENTS.contains(&kind.as_str()) {
            by_clients += count;
        } else {
            injected += count;
            least = least.min(*count);
        }
    }
    let seeds: Vec<_> = totals.seeds.values().flatten().collect();
    let range = (seeds.iter().min(), seeds.iter().max());
    let seeds = if let (Some(first), Some(last)) = range { format!("{first} to {last}") } else { String::new() };
    let topologies: Vec<_> = totals.topologies.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let wrong: u64 = totals.violations.values().sum();
    let (date, commit) =
        (output_of("date", &["-u", "+%Y-%m-%d"])?, output_of("git", &["rev-parse", "--short", "HEAD"])?);
    let least = if least == u64::MAX { 0 } else { least };
    Ok(format!(
        "| {date} | {commit} | {} ({}) | {seeds} | {} | {} | {injected}, each kind {least} or more | {by_clients} \
         | {:.2} % | {} | {:.2} % | {wrong} | {} |\n",
        totals.histories,
        topologies.join(", "),
        counts.operations,
        counts.grants,
        counts.control.lost_percent(),
        totals.exclusion_excused(),
        counts.fenced.lost_percent(),
        state.failures.len(),
    ))
}

fn output_of(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
