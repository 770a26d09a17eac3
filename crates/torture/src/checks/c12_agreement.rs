//! C12: the nodes of a quorum agree. Wherever a batch is the last that a node took, what the node keeps is the same;
//! and once the clients have stopped, all nodes vote and are seen with one and the same batch of each partition.
//!
//! A node that lost its memory counts in the first: what it kept, or what it was restored from, is what some batch
//! left. Nodes are seen at moments, so not each batch is seen at two of them.

use super::{findings::Findings, index::History};
use crate::{nodes::Kept, verdict::Check};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    check_one_content(history, findings);
    check_agreed_in_the_end(history, findings);
}

fn check_one_content(history: &History<'_>, findings: &mut Findings) {
    let mut seen: BTreeMap<(u16, &str), &Kept> = BTreeMap::new();
    for kept in &history.kept {
        let first = *seen.entry((kept.partition, &kept.batch)).or_insert(kept);
        if first.content != kept.content {
            let (then, at) = (findings.at(first.at), findings.at(kept.at));
            let what = format!(
                "batch {} of partition {} is {} at {} at {then}, and {} at {} at {at}",
                kept.batch, kept.partition, first.content, first.node, kept.content, kept.node
            );
            findings.global_violation(Check::C12, what);
        }
    }
}

fn check_agreed_in_the_end(history: &History<'_>, findings: &mut Findings) {
    let nodes: BTreeSet<&str> = history.kept.iter().map(|kept| kept.node.as_str()).collect();
    let partitions: BTreeSet<u16> = history.kept.iter().map(|kept| kept.partition).collect();
    let Some(run) = history.run.filter(|_| !nodes.is_empty()) else { return };
    let mut voters: BTreeMap<(u16, &str), BTreeSet<&str>> = BTreeMap::new();
    for kept in history.kept.iter().filter(|kept| kept.votes && kept.at >= run.end) {
        voters.entry((kept.partition, &kept.batch)).or_default().insert(&kept.node);
    }
    for partition in partitions {
        let mut of_partition = voters.iter().filter(|((of, _), _)| *of == partition);
        if !of_partition.any(|(_, voters)| *voters == nodes) {
            let what = format!("after the run, no batch of partition {partition} was seen at all nodes");
            findings.global_violation(Check::C12, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{checks::builder::HistoryBuilder, history::Record, verdict::Check::C12};

    /// Two nodes that agree after the run, which ends at 60 s.
    fn agreed() -> HistoryBuilder {
        HistoryBuilder::new().kept("node-0", 61_000, "9-1", "x").kept("node-1", 61_000, "9-1", "x")
    }

    #[test]
    fn nodes_that_agree() {
        agreed().kept("node-0", 1_000, "1-1", "a").kept("node-1", 1_100, "1-1", "a").passes();
        agreed().kept("node-0", 1_000, "1-1", "a").kept("node-1", 1_000, "1-2", "b").passes();
        agreed().kept("node-0", 61_100, "9-2", "y").passes();
    }

    #[test]
    fn a_batch_of_two_contents() {
        let builder = agreed().kept("node-0", 1_000, "1-1", "a").kept("node-1", 1_100, "1-1", "b");
        let what = "batch 1-1 of partition 3 is a at node-0 at 1.000000 s, and b at node-1 at 1.100000 s";
        builder.violates(C12, what);
        // At one node, and at one that does not vote, too.
        agreed().kept("node-0", 1_000, "1-1", "a").kept("node-0", 1_100, "1-1", "b").violates(C12, "batch 1-1");
        let builder = agreed().kept("node-0", 1_000, "1-1", "a").kept("node-1", 1_100, "1-1", "b");
        builder.edit_last(loses_its_vote).violates(C12, "batch 1-1");
    }

    fn loses_its_vote(record: &mut Record) {
        match record {
            Record::Kept(kept) => kept.votes = false,
            other => panic!("nothing kept: {other:?}"),
        }
    }

    #[test]
    fn never_seen_alike_after_the_run() {
        let apart = HistoryBuilder::new().kept("node-0", 61_000, "9-1", "x").kept("node-1", 61_000, "9-2", "y");
        apart.violates(C12, "after the run, no batch of partition 3 was seen at all nodes");
        let before = HistoryBuilder::new().kept("node-0", 59_000, "9-1", "x").kept("node-1", 59_000, "9-1", "x");
        before.violates(C12, "no batch of partition 3");
        let stranger = HistoryBuilder::new().kept("node-0", 61_000, "9-1", "x").kept("node-1", 61_000, "9-1", "x");
        stranger.edit_last(loses_its_vote).violates(C12, "no batch of partition 3");
    }
}
