//! C13: a node that lost its memory is brought up to date, and votes again. Who injects the fault waits for that, and
//! decides how long.

use super::{
    findings::{Findings, Period},
    index::History,
};
use crate::verdict::Check;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for voting in &history.votings {
        let Some(missing) = &voting.missing else { continue };
        let (healed, waited) = (findings.at(voting.healed), Period(voting.at.saturating_sub(voting.healed)));
        let what = format!("{} was healed at {healed}; {waited} later not all nodes vote: {missing}", voting.fault);
        findings.global_violation(Check::C13, what);
    }
}

#[cfg(test)]
mod tests {
    use crate::{checks::builder::HistoryBuilder, verdict::Check::C13};

    #[test]
    fn nodes_vote_again_or_do_not() {
        HistoryBuilder::new().voting("node-empty", (1_000, 1_500), None).passes();
        let builder = HistoryBuilder::new().voting("node-empty", (1_000, 11_000), Some("node-1 votes in 3 of 32"));
        builder
            .violates(C13, "node-empty was healed at 1.000000 s; 10.000000 s later not all nodes vote: node-1 votes");
    }
}
