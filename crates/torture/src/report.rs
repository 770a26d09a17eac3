//! Verdicts as text.

use crate::{
    totals::Totals,
    verdict::{Check, Counts, Verdict, Writes},
};
use std::fmt::{self, Write as _};

/// The number of violations shown.
const SHOWN: usize = 20;

/// The report of one history.
#[must_use]
pub fn of_one(verdict: &Verdict) -> String {
    let mut totals = Totals::default();
    totals.add(verdict);
    let mut page = format!("{}, seed {}, {} s\n\n", verdict.topology, verdict.seed, verdict.lasted / 1_000_000_000);
    page.push_str(&body(&totals));
    page
}

/// The report of many histories.
#[must_use]
pub fn of_all(totals: &Totals) -> String {
    let topologies: Vec<_> = totals.topologies.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let lasted = totals.lasted / 1_000_000_000;
    let mut page = format!("{} histories of {lasted} s in all: {}\n\n", totals.histories, topologies.join(", "));
    page.push_str(&body(totals));
    page
}

fn body(totals: &Totals) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = counted(&mut page, &totals.counts)
        .and_then(|()| checks(&mut page, totals))
        .and_then(|()| ends(&mut page, totals));
    page
}

fn counted(page: &mut String, counts: &Counts) -> fmt::Result {
    writeln!(page, "operations  {:>12}, of which {} with an unknown outcome", counts.operations, counts.unknown)?;
    writeln!(page, "grants      {:>12}, of which {} overtook an earlier request", counts.grants, counts.inversions)?;
    writeln!(page, "steps       {:>12}, of which the fenced store rejected {}", counts.steps, counts.rejected)?;
    let Counts { raises, checks, readers_rejected, .. } = counts;
    writeln!(
        page,
        "  of readers{:>12}, of which it rejected {readers_rejected}: {raises} raises, {checks} checks",
        raises + checks
    )?;
    let all: u64 = counts.faults.values().sum();
    writeln!(page, "faults      {all:>12}")?;
    counts.faults.iter().try_for_each(|(kind, count)| writeln!(page, "  {kind:<26} {count:>8}"))
}

fn checks(page: &mut String, totals: &Totals) -> fmt::Result {
    writeln!(page, "\ncheck                              violations   excused by faults")?;
    for check in Check::ALL {
        let wrong = totals.violations.get(&check).copied().unwrap_or(0);
        let kinds: Vec<_> = totals.excused.get(&check).into_iter().flatten().collect();
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let line = format!("{check:<4}{:<31}{wrong:>10}   {}", check.name(), kinds.join(", "));
        writeln!(page, "{}", line.trim_end())?;
    }
    Ok(())
}

fn ends(page: &mut String, totals: &Totals) -> fmt::Result {
    let Counts { fenced, control, .. } = totals.counts;
    writeln!(page)?;
    for (name, Writes { taken, lost }, writes) in
        [("fenced store", fenced, fenced), ("unfenced control", control, control)]
    {
        let percent = writes.lost_percent();
        writeln!(page, "{name:<18} {taken:>10} writes taken, {lost:>8} lost ({percent:.2} %)")?;
    }
    if !totals.control_lost_updates() {
        writeln!(page, "The control lost nothing: these histories do not prove that fencing helps.")?;
    }
    let excused = totals.exclusion_excused();
    if excused > 0 && totals.violations.get(&Check::C4).is_none_or(|wrong| *wrong == 0) {
        writeln!(
            page,
            "Exclusion broke {excused} times under faults outside of its promise; the fenced store did not."
        )?;
    }
    let wrong = totals.violation_count();
    writeln!(page, "\n{}", if wrong == 0 { "No violation.".to_owned() } else { format!("{wrong} VIOLATIONS") })?;
    let all = totals.bad.iter().flat_map(|bad| bad.violations.iter().map(move |one| (bad, one)));
    for (bad, violation) in all.take(SHOWN) {
        writeln!(page, "  {} seed {}: {violation}", bad.topology, bad.seed)?;
    }
    if wrong > SHOWN as u64 {
        writeln!(page, "  and {} more", wrong - SHOWN as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::totals::tests::two;

    #[test]
    fn a_page_of_all() {
        let mut totals = Totals::default();
        two().iter().for_each(|one| totals.add(one));
        let page = of_all(&totals);
        for line in [
            "2 histories of 30 s in all: standalone 2",
            "operations          2000, of which 0 with",
            "steps                800, of which the fenced store rejected 100",
            "  of readers         200, of which it rejected 16: 60 raises, 140 checks",
            "  sigkill-redis                     4",
            "C3  exclusion by lease                      0   restore 2",
            "C5  no lost waiter                          1",
            "fenced store              300 writes taken,        0 lost (0.00 %)",
            "unfenced control          400 writes taken,       50 lost (12.50 %)",
            "Exclusion broke 2 times under faults outside of its promise; the fenced store did not.",
            "1 VIOLATIONS",
            "  standalone seed 2: C5 lock-1: something happened at 1.000000 s",
        ] {
            assert!(page.contains(line), "no {line:?} in\n{page}");
        }
        assert!(page.lines().count() < 50, "{page}");
    }

    #[test]
    fn a_page_of_one() {
        let [mut good, _] = two();
        let page = of_one(&good);
        assert!(page.starts_with("standalone, seed 1, 15 s\n") && page.contains("\nNo violation.\n"), "{page}");
        good.counts.control.lost = 0;
        assert!(of_one(&good).contains("The control lost nothing"));
    }

    #[test]
    fn the_first_of_many_violations_are_shown() {
        let [_, mut bad] = two();
        bad.violations = vec![bad.violations[0].clone(); 1_000];
        let page = of_one(&bad);
        assert!(page.contains("1000 VIOLATIONS") && page.ends_with("  and 980 more\n"), "{page}");
    }
}
