//! C4: the fenced store, worked out again from its steps: what it took rises, an equal token is the same grant's,
//! nothing of a superseded holder got in, nothing of the newest was turned away, and no number is another than it must
//! be. Under all faults: this is what tokens are for.

use super::{
    findings::Findings,
    index::{History, Lock},
};
use crate::{history::StoreStep, verdict::Check};
use std::collections::HashMap;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for lock in &history.locks {
        let mut stores = Stores::default();
        for step in &lock.steps {
            let at = findings.at(step.at);
            for what in stores.take(step) {
                let who = format!("client {} with {} of grant {}", step.client, step.token, step.grant);
                findings.wrong(Check::C4, lock.name, format!("step {} at {at}, {who}: {what}", step.seq));
            }
        }
        for what in stores.wrong_end(lock) {
            findings.wrong(Check::C4, lock.name, format!("in the end, {what}"));
        }
    }
}

/// The two stores as they must be.
#[derive(Default)]
struct Stores<'a> {
    highest: u64,
    /// Whose grant the highest token is.
    grant: &'a str,
    fenced: u64,
    control: u64,
    accepted: u64,
    writes: u64,
    /// What each holder last read of the control, and what it last left there.
    read: HashMap<(u32, u64), (Option<u64>, u64)>,
}

impl<'a> Stores<'a> {
    /// What is wrong with this step. The next one is judged from what the stores said, so that one fault is told once.
    fn take(&mut self, step: &'a StoreStep) -> Vec<String> {
        let mut wrong = Vec::new();
        let (highest, grant) = (self.highest, self.grant);
        if step.highest != highest {
            wrong.push(format!("it had seen {highest}, and says {}", step.highest));
        }
        let must_pass = step.token > highest || (step.token == highest && step.grant == grant);
        match (step.accepted, must_pass) {
            (true, false) if step.token == highest => {
                wrong.push(format!("taken, although grant {grant} has the same token"));
            }
            (true, false) => wrong.push(format!("taken from a superseded holder: {highest} had been seen")),
            (false, true) => wrong.push(format!("rejected, although it is the newest: {highest} had been seen")),
            _ => {}
        }
        let fenced = self.fenced + u64::from(step.write && step.accepted);
        if step.fenced != fenced {
            wrong.push(format!("the fenced number must be {fenced} and is {}", step.fenced));
        }
        if !self.control_may_be(step) {
            wrong.push(format!("the control went from {} to {}", self.control, step.control));
        }
        self.writes += u64::from(step.write);
        self.accepted += u64::from(step.write && step.accepted);
        (self.fenced, self.control) = (step.fenced, step.control);
        if step.accepted && step.token >= highest {
            (self.highest, self.grant) = (step.token, &step.grant);
        }
        wrong
    }

    /// A read changes nothing; a write leaves what its holder had read, or had left, + 1.
    fn control_may_be(&mut self, step: &StoreStep) -> bool {
        let holder = self.read.entry((step.client, step.token)).or_insert((None, 0));
        if !step.write {
            *holder = (Some(step.control), step.control);
            return step.control == self.control;
        }
        let (read, left) = *holder;
        holder.1 = step.control;
        read.is_none_or(|read| step.control == read + 1 || step.control == left + 1)
    }

    fn wrong_end(&self, lock: &Lock<'_>) -> Vec<String> {
        let mut wrong = Vec::new();
        for end in &lock.finals {
            if end.fenced != end.writes_accepted {
                let (fenced, taken) = (end.fenced, end.writes_accepted);
                wrong.push(format!("the fenced store lost updates: it took {taken} writes and is at {fenced}"));
            }
            let pairs = [
                ("the fenced number", end.fenced, self.fenced),
                ("writes taken", end.writes_accepted, self.accepted),
                ("the control", end.control, self.control),
                ("writes to the control", end.writes_all, self.writes),
            ];
            for (what, said, counted) in pairs.into_iter().filter(|(_, said, counted)| said != counted) {
                wrong.push(format!("{what}: {said}, by the steps {counted}"));
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
    use crate::{checks::story::Story, history::Record, verdict::Check::C4};

    /// Client 1 reads and writes, is paused, and writes again after client 2.
    fn story() -> Story {
        let story =
            Story::new().got(1, "a", (0, 5), 1).step(1, 1, 10, false).step(1, 1, 11, true).step(1, 1, 12, false);
        let story = story.lost(1, 1, 1_885, "deadline", None).got(2, "b", (100, 2_100), 2);
        story.step(2, 2, 2_110, false).step(2, 2, 2_120, true).released(2, 2, (2_200, 2_210))
    }

    #[test]
    fn the_late_writer_is_fenced_and_the_control_loses() {
        let verdict = story().step(1, 1, 2_300, true).verdict();
        assert!(verdict.is_good(), "{verdict:#?}");
        assert_eq!((verdict.counts.fenced.lost, verdict.counts.control.lost), (0, 1));
        assert_eq!(verdict.counts.rejected, 1);
    }

    #[test]
    fn a_superseded_write_got_in() {
        let story = story().step(1, 1, 2_300, true).took(|step| (step.accepted, step.fenced) = (true, 3));
        story.shows(C4, "taken from a superseded holder: 1795000000000002 had been seen");
    }

    #[test]
    fn another_grant_with_the_same_token_got_in() {
        let story = story().step(2, 2, 2_300, true).took(|step| step.grant = "other".into());
        story.shows(C4, "although grant g2 has the same token");
    }

    #[test]
    fn another_grant_with_the_same_token_is_rejected_rightly() {
        let story = story().step(2, 2, 2_300, false).took(|step| {
            step.grant = "other".into();
            step.accepted = false;
        });
        story.shows_no(C4);
    }

    #[test]
    fn the_newest_was_rejected() {
        let story = Story::new().got(1, "a", (0, 5), 1).step(1, 1, 10, false).took(|step| step.accepted = false);
        story.shows(C4, "rejected, although it is the newest");
        story_of_two().shows(C4, "rejected, although it is the newest");
    }

    fn story_of_two() -> Story {
        story().step(2, 2, 2_300, true).took(|step| (step.accepted, step.fenced) = (false, step.fenced - 1))
    }

    #[test]
    fn the_highest_is_wrong() {
        story().step(2, 2, 2_300, false).took(|step| step.highest -= 1).shows(C4, "and says 1795000000000001");
    }

    #[test]
    fn the_fenced_number_is_wrong() {
        story().step(2, 2, 2_300, true).took(|step| step.fenced += 1).shows(C4, "the fenced number must be 3 and is 4");
    }

    #[test]
    fn the_control_is_wrong() {
        story().step(2, 2, 2_300, true).took(|step| step.control += 1).shows(C4, "the control went from 2 to 4");
        story().step(2, 2, 2_300, false).took(|step| step.control += 1).shows(C4, "the control went from 2 to 3");
    }

    #[test]
    fn several_writes_after_one_read_are_judged_either_way() {
        story().step(2, 2, 2_300, true).step(2, 2, 2_310, true).passes();
        story().step(2, 2, 2_300, true).took(|step| step.control = 2).shows_no(C4);
    }

    #[test]
    fn an_end_that_does_not_follow() {
        let told = |change: fn(&mut crate::history::Final)| {
            let mut records = story().told();
            records.iter_mut().for_each(|record| {
                if let Record::Final(end) = record {
                    change(end);
                }
            });
            let verdict = crate::checks::check(&records);
            let of = verdict.violations.iter().find(|one| one.check == C4);
            of.map(|one| one.message.clone()).unwrap_or_default()
        };
        assert_eq!(told(|_| ()), "");
        assert!(told(|end| end.fenced -= 1).contains("lost updates: it took 2 writes and is at 1"));
        assert!(told(|end| end.writes_accepted += 1).contains("lost updates"));
        assert!(told(|end| end.control -= 1).contains("the control: 1, by the steps 2"));
        assert!(told(|end| end.writes_all += 1).contains("writes to the control: 3, by the steps 2"));
    }
}
