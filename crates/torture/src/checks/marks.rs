//! The two marks of a fence (docs/guards.md), recomputed from its steps, and what they promise to a reader: what it has
//! read stays so, from its first accepted step on and for as long as its steps are accepted.

use crate::steps::{StepKind, StoreStep};
use std::collections::HashMap;

/// The expected state of a fence.
#[derive(Default)]
pub(super) struct Marks<'a> {
    /// The highest token of a writer.
    writer: u64,
    /// The grant of that token.
    grant: &'a str,
    /// The highest token of a reader.
    shared: u64,
    /// The number that each reader found with its first accepted step, by grant and token. A lock that was upgraded has
    /// another token, so what its holder wrote itself counts for none of its earlier reads.
    found: HashMap<(&'a str, u64), u64>,
}

impl<'a> Marks<'a> {
    /// Returns the errors of this step. The next one is judged from the marks that the store has then, so that each
    /// error is reported once.
    pub(super) fn apply(&mut self, step: &'a StoreStep) -> Vec<String> {
        let mut wrong = Vec::new();
        let marks = [("writer", self.writer, step.writer), ("reader", self.shared, step.shared)];
        for (of, seen, reported) in marks.into_iter().filter(|(_, seen, reported)| seen != reported) {
            wrong.push(format!("it had seen {seen} of a {of}, but reports {reported}"));
        }
        match (step.accepted, self.obstacle(step)) {
            (true, Some(obstacle)) => wrong.push(format!("accepted{obstacle}")),
            (false, None) => wrong.push(format!(
                "rejected, although it is the newest: {} of a writer and {} of a reader had been seen",
                self.writer, self.shared
            )),
            _ => {}
        }
        if step.accepted {
            self.raise(step);
            wrong.extend(self.changed_number(step));
        }
        wrong
    }

    /// Why the step must be rejected, if it must.
    fn obstacle(&self, step: &StoreStep) -> Option<String> {
        let (token, writer, shared) = (step.token, self.writer, self.shared);
        let of_reader = step.kind.is_of_reader();
        if token < writer {
            let who = if of_reader { "reader" } else { "holder" };
            return Some(format!(" from a superseded {who}: {writer} had been seen"));
        }
        if token == writer && step.grant != self.grant {
            return Some(format!(", although grant {} has the same token", self.grant));
        }
        if !of_reader && token <= shared {
            return Some(format!(" from a writer, although the reader {shared} had been seen"));
        }
        let is_unraised = step.kind == StepKind::Check && token > shared;
        is_unraised.then(|| format!(" without a raise: {shared} of a reader had been seen"))
    }

    fn raise(&mut self, step: &'a StoreStep) {
        match step.kind {
            StepKind::Read | StepKind::Write if step.token >= self.writer => {
                (self.writer, self.grant) = (step.token, &step.grant);
            }
            StepKind::Raise => self.shared = self.shared.max(step.token),
            StepKind::Read | StepKind::Write | StepKind::Check => {}
        }
    }

    /// The promise to a reader, which does not depend on the marks.
    fn changed_number(&mut self, step: &'a StoreStep) -> Option<String> {
        if !step.kind.is_of_reader() {
            return None;
        }
        let found = *self.found.entry((&step.grant, step.token)).or_insert(step.fenced);
        let now = step.fenced;
        (now != found).then(|| format!("what this reader reads changed under its lock: from {found} to {now}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{checks::builder::HistoryBuilder, history::Record, verdict::Check::C4};

    /// Client 1 writes and is paused. Client 2 raises the fence as a reader, and checks.
    fn reader() -> HistoryBuilder {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).step(1, 1, 10, false).step(1, 1, 11, true);
        let builder = builder.lost(1, 1, 1_885, "deadline", None).granted(2, "b", (100, 2_100), 2).shared();
        builder.raise(2, 2, 2_110).check(2, 2, 2_120)
    }

    /// After it, client 3 writes.
    fn writer_after() -> HistoryBuilder {
        let builder = reader().released(2, 2, (2_200, 2_210)).granted(3, "c", (2_220, 2_230), 3);
        builder.step(3, 3, 2_240, false).step(3, 3, 2_250, true).released(3, 3, (2_300, 2_310))
    }

    /// Client 1 writes, becomes a reader and raises the fence.
    fn downgraded() -> HistoryBuilder {
        let builder = HistoryBuilder::new().granted(1, "a", (0, 5), 1).step(1, 1, 10, false).step(1, 1, 11, true);
        builder.downgraded(1, 1, (20, 25)).raise(1, 1, 30).check(1, 1, 40)
    }

    fn accepted(builder: HistoryBuilder) -> HistoryBuilder {
        builder.edit_step(|step| step.accepted = true)
    }

    fn rejected(builder: HistoryBuilder) -> HistoryBuilder {
        builder.edit_step(|step| step.accepted = false)
    }

    #[test]
    fn late_steps_are_refused_on_either_side() {
        let late = || writer_after().check(2, 2, 2_400).raise(2, 2, 2_410);
        let verdict = late().verdict();
        assert!(verdict.is_good(), "{verdict:#?}");
        assert_eq!((verdict.counts.raises, verdict.counts.checks, verdict.counts.readers_rejected), (2, 2, 2));
        let verdict = reader().step(1, 1, 2_130, true).released(2, 2, (2_200, 2_210)).verdict();
        assert!(verdict.is_good(), "{verdict:#?}");
        assert_eq!((verdict.counts.rejected, verdict.counts.readers_rejected), (1, 0));
    }

    #[test]
    fn a_late_write_of_a_writer_before_the_reader_was_accepted() {
        let late = reader().step(1, 1, 2_130, true).edit_step(|step| (step.accepted, step.fenced) = (true, 2));
        late.clone().violates(C4, "accepted from a writer, although the reader 1795000000000002 had been seen");
        late.check(2, 2, 2_140).violates(C4, "what this reader reads changed under its lock: from 1 to 2");
        accepted(reader().step(1, 1, 2_130, false)).violates(C4, "although the reader 1795000000000002 had been seen");
    }

    #[test]
    fn late_steps_of_a_reader_before_the_writer_were_accepted() {
        let superseded = "accepted from a superseded reader: 1795000000000003 had been seen";
        accepted(writer_after().check(2, 2, 2_400)).violates(C4, superseded);
        accepted(writer_after().raise(2, 2, 2_400)).violates(C4, superseded);
        let verdict = accepted(writer_after().check(2, 2, 2_400)).verdict();
        let changed = "what this reader reads changed under its lock: from 1 to 2";
        assert!(verdict.violations.iter().any(|one| one.message.contains(changed)), "{verdict:#?}");
    }

    #[test]
    fn a_check_was_accepted_without_a_raise() {
        let unraised = || reader().released(2, 2, (2_200, 2_210)).granted(3, "c", (2_220, 2_230), 3).shared();
        unraised().check(3, 3, 2_240).satisfies(C4);
        accepted(unraised().check(3, 3, 2_240))
            .violates(C4, "accepted without a raise: 1795000000000002 of a reader had been seen");
        unraised().raise(3, 3, 2_240).check(3, 3, 2_250).check(2, 2, 2_260).satisfies(C4);
    }

    #[test]
    fn the_newest_steps_of_a_reader_were_rejected() {
        let newest =
            "rejected, although it is the newest: 1795000000000001 of a writer and 1795000000000002 of a reader";
        rejected(reader().check(2, 2, 2_130)).violates(C4, newest);
        rejected(reader().raise(2, 2, 2_130)).violates(C4, newest);
        let earlier = || reader().raise(3, 3, 2_130);
        earlier().check(2, 2, 2_140).raise(2, 2, 2_150).check(3, 3, 2_160).satisfies(C4);
        rejected(earlier().check(2, 2, 2_140)).violates(C4, "rejected, although it is the newest");
        rejected(earlier().raise(2, 2, 2_140)).violates(C4, "rejected, although it is the newest");
    }

    #[test]
    fn a_writer_after_the_reader_was_rejected() {
        rejected(reader().step(3, 3, 2_130, false)).violates(C4, "rejected, although it is the newest");
    }

    #[test]
    fn a_step_changed_the_wrong_mark() {
        writer_after()
            .check(3, 3, 2_400)
            .edit_step(|step| step.shared += 1)
            .violates(C4, "it had seen 1795000000000002 of a reader, but reports 1795000000000003");
        reader()
            .check(2, 2, 2_400)
            .edit_step(|step| step.writer += 1)
            .violates(C4, "it had seen 1795000000000001 of a writer, but reports 1795000000000002");
    }

    #[test]
    fn a_number_changed_without_a_write() {
        let changed = reader().check(2, 2, 2_130).edit_step(|step| step.fenced += 1);
        changed.violates(C4, "what this reader reads changed under its lock: from 1 to 2");
        let first = HistoryBuilder::new().granted(1, "a", (0, 5), 1).shared().raise(1, 1, 10);
        first.check(1, 1, 20).edit_step(|step| step.fenced += 1).violates(C4, "changed under its lock: from 0 to 1");
    }

    #[test]
    fn a_downgraded_holder_has_shut_out_its_own_writes() {
        downgraded().step(1, 1, 50, true).released(1, 1, (60, 65)).satisfies(C4);
        accepted(downgraded().step(1, 1, 50, true))
            .violates(C4, "accepted from a writer, although the reader 1795000000000001 had been seen");
        rejected(downgraded().check(1, 1, 50)).violates(C4, "rejected, although it is the newest");
    }

    #[test]
    fn another_grant_with_the_token_of_the_writer() {
        let other = |builder: HistoryBuilder| builder.edit_step(|step| step.grant = "other".into());
        other(downgraded().raise(1, 1, 50)).violates(C4, "accepted, although grant g1 has the same token");
        other(downgraded().check(1, 1, 50)).violates(C4, "accepted, although grant g1 has the same token");
        rejected(other(downgraded().check(1, 1, 50))).satisfies(C4);
    }

    #[test]
    fn an_upgraded_reader_writes_with_its_new_token() {
        let written = downgraded().upgraded(1, 1, (50, 55), 2).step(1, 2, 60, false).step(1, 2, 61, true);
        let again = written.downgraded(1, 2, (70, 75)).raise(1, 2, 80).check(1, 2, 90);
        let again = || {
            let mut again = again.clone();
            // The lease keeps its grant.
            for record in &mut again.records {
                if let Record::Store(step) = record {
                    step.grant = "g1".into();
                }
            }
            again
        };
        again().released(1, 2, (100, 105)).satisfies(C4);
        accepted(again().check(1, 1, 95)).violates(C4, "accepted from a superseded reader");
        again().edit_step(|step| step.fenced -= 1).violates(C4, "changed under its lock: from 2 to 1");
    }
}
