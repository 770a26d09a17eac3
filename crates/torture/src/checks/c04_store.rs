//! C4: the fenced store, recomputed from its steps: no step of a superseded holder is accepted, none of the newest
//! holder is rejected, what a reader reads stays the same ([`super::marks`]), and all numbers are as expected. Under
//! all faults: this is the purpose of tokens.

use super::{
    findings::Findings,
    index::{History, Lock},
    marks::Marks,
};
use crate::{
    steps::{StepKind, StoreStep},
    verdict::Check,
};
use std::collections::HashMap;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let mut stores = ExpectedStores::default();
        for step in &lock.steps {
            let at = findings.at(step.at);
            for what in stores.apply(step) {
                let who = format!("client {} with {} of grant {}", step.client, step.token, step.grant);
                findings.violation(Check::C4, lock.name, format!("step {} at {at}, {who}: {what}", step.seq));
            }
        }
        for what in stores.check_final_state(lock) {
            findings.violation(Check::C4, lock.name, format!("in the end, {what}"));
        }
    }
}

/// The expected state of the two stores.
#[derive(Default)]
struct ExpectedStores<'a> {
    marks: Marks<'a>,
    fenced: u64,
    control: u64,
    accepted: u64,
    writes: u64,
    /// What each holder last read from the control, and what it last wrote to it.
    read: HashMap<(u32, u64), (Option<u64>, u64)>,
}

impl<'a> ExpectedStores<'a> {
    /// Returns the errors of this step. The next one is judged from the state that the stores reported, so that each
    /// error is reported once.
    fn apply(&mut self, step: &'a StoreStep) -> Vec<String> {
        let mut wrong = self.marks.apply(step);
        let fenced = self.fenced + u64::from(step.is_write() && step.accepted);
        if step.fenced != fenced {
            wrong.push(format!("the fenced number must be {fenced} and is {}", step.fenced));
        }
        if !self.is_control_plausible(step) {
            wrong.push(format!("the control went from {} to {}", self.control, step.control));
        }
        self.writes += u64::from(step.is_write());
        self.accepted += u64::from(step.is_write() && step.accepted);
        (self.fenced, self.control) = (step.fenced, step.control);
        wrong
    }

    /// A write stores the value that its holder last read, or last wrote, + 1; the other steps change nothing.
    fn is_control_plausible(&mut self, step: &StoreStep) -> bool {
        if step.kind.is_of_reader() {
            return step.control == self.control;
        }
        let holder = self.read.entry((step.client, step.token)).or_insert((None, 0));
        if step.kind == StepKind::Read {
            *holder = (Some(step.control), step.control);
            return step.control == self.control;
        }
        let (read, left) = *holder;
        holder.1 = step.control;
        read.is_none_or(|read| step.control == read + 1 || step.control == left + 1)
    }

    fn check_final_state(&self, lock: &Lock<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        for end in &lock.finals {
            if end.fenced != end.writes_accepted {
                let (fenced, taken) = (end.fenced, end.writes_accepted);
                wrong.push(format!("the fenced store lost updates: it accepted {taken} writes and is at {fenced}"));
            }
            let pairs = [
                ("the fenced number", end.fenced, self.fenced),
                ("accepted writes", end.writes_accepted, self.accepted),
                ("the control", end.control, self.control),
                ("writes to the control", end.writes_all, self.writes),
            ];
            for (what, recorded, counted) in pairs.into_iter().filter(|(_, recorded, counted)| recorded != counted) {
                wrong.push(format!("{what}: {recorded}, computed from the steps: {counted}"));
            }
            if end.control > end.writes_all {
                wrong.push(format!("the control took {} writes and is at {}", end.writes_all, end.control));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use crate::{checks::builder::HistoryBuilder, history::Record, verdict::Check::C4};

    /// Client 1 reads and writes, is paused, and writes again after client 2.
    fn builder() -> HistoryBuilder {
        let builder = HistoryBuilder::new()
            .granted(1, "a", (0, 5), 1)
            .step(1, 1, 10, false)
            .step(1, 1, 11, true)
            .step(1, 1, 12, false);
        let builder = builder.lost(1, 1, 1_885, "deadline", None).granted(2, "b", (100, 2_100), 2);
        builder.step(2, 2, 2_110, false).step(2, 2, 2_120, true).released(2, 2, (2_200, 2_210))
    }

    #[test]
    fn the_late_writer_is_fenced_and_the_control_loses() {
        let verdict = builder().step(1, 1, 2_300, true).verdict();
        assert!(verdict.is_good(), "{verdict:#?}");
        assert_eq!((verdict.counts.fenced.lost, verdict.counts.control.lost), (0, 1));
        assert_eq!(verdict.counts.rejected, 1);
    }

    #[test]
    fn a_superseded_write_was_accepted() {
        let builder = builder().step(1, 1, 2_300, true).edit_step(|step| (step.accepted, step.fenced) = (true, 3));
        builder.violates(C4, "accepted from a superseded holder: 1795000000000002 had been seen");
    }

    #[test]
    fn another_grant_with_the_same_token_was_accepted() {
        let builder = builder().step(2, 2, 2_300, true).edit_step(|step| step.grant = "other".into());
        builder.violates(C4, "although grant g2 has the same token");
    }

    #[test]
    fn another_grant_with_the_same_token_is_correctly_rejected() {
        let builder = builder().step(2, 2, 2_300, false).edit_step(|step| {
            step.grant = "other".into();
            step.accepted = false;
        });
        builder.satisfies(C4);
    }

    #[test]
    fn the_newest_was_rejected() {
        let builder = HistoryBuilder::new()
            .granted(1, "a", (0, 5), 1)
            .step(1, 1, 10, false)
            .edit_step(|step| step.accepted = false);
        builder.violates(C4, "rejected, although it is the newest");
        builder_of_two().violates(C4, "rejected, although it is the newest");
    }

    fn builder_of_two() -> HistoryBuilder {
        builder().step(2, 2, 2_300, true).edit_step(|step| (step.accepted, step.fenced) = (false, step.fenced - 1))
    }

    #[test]
    fn the_highest_token_is_wrong() {
        builder()
            .step(2, 2, 2_300, false)
            .edit_step(|step| step.writer -= 1)
            .violates(C4, "but reports 1795000000000001");
    }

    #[test]
    fn the_fenced_number_is_wrong() {
        builder()
            .step(2, 2, 2_300, true)
            .edit_step(|step| step.fenced += 1)
            .violates(C4, "the fenced number must be 3 and is 4");
    }

    #[test]
    fn the_control_is_wrong() {
        builder()
            .step(2, 2, 2_300, true)
            .edit_step(|step| step.control += 1)
            .violates(C4, "the control went from 2 to 4");
        builder()
            .step(2, 2, 2_300, false)
            .edit_step(|step| step.control += 1)
            .violates(C4, "the control went from 2 to 3");
    }

    #[test]
    fn a_reader_changes_no_number() {
        let builder = || HistoryBuilder::new().granted(1, "a", (0, 5), 1).step(1, 1, 10, false);
        let reader = || builder().downgraded(1, 1, (15, 20)).raise(1, 1, 30).check(1, 1, 40);
        reader().satisfies(C4);
        reader().edit_step(|step| step.control += 1).violates(C4, "the control went from 0 to 1");
        reader().edit_step(|step| step.fenced += 1).violates(C4, "the fenced number must be 0 and is 1");
    }

    #[test]
    fn several_writes_after_one_read_are_judged_either_way() {
        builder().step(2, 2, 2_300, true).step(2, 2, 2_310, true).passes();
        builder().step(2, 2, 2_300, true).edit_step(|step| step.control = 2).satisfies(C4);
    }

    #[test]
    fn a_final_state_that_differs_from_the_steps() {
        let message_after = |change: fn(&mut crate::history::Final)| {
            let mut records = builder().finish();
            records.iter_mut().for_each(|record| {
                if let Record::Final(end) = record {
                    change(end);
                }
            });
            let verdict = crate::checks::check(&records);
            let of = verdict.violations.iter().find(|one| one.check == C4);
            of.map(|one| one.message.clone()).unwrap_or_default()
        };
        assert_eq!(message_after(|_| ()), "");
        assert!(message_after(|end| end.fenced -= 1).contains("lost updates: it accepted 2 writes and is at 1"));
        assert!(message_after(|end| end.writes_accepted += 1).contains("lost updates"));
        assert!(message_after(|end| end.control -= 1).contains("the control: 1, computed from the steps: 2"));
        assert!(
            message_after(|end| end.writes_all += 1).contains("writes to the control: 3, computed from the steps: 2")
        );
    }
}
