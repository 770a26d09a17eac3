//! C10: after the run nothing is left behind and nothing has crashed. Remaining waiters and holders are C5's.

use super::{findings::Findings, index::History};
use crate::verdict::Check;

pub(crate) fn check(history: &History<'_>, findings: &mut Findings) {
    for rest in &history.leftovers {
        let lists = [
            ("a key is left", &rest.leaked_keys),
            ("a server ended", &rest.crashed),
            ("a server's log", &rest.log_errors),
        ];
        for (what, list) in lists {
            for one in list {
                findings.global_violation(Check::C10, format!("{what}: {one}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        checks::{builder::HistoryBuilder, check},
        history::{Leftovers, Record},
        verdict::Check::C10,
    };

    fn messages(change: impl FnOnce(&mut Leftovers)) -> Vec<String> {
        let mut records = HistoryBuilder::new().finish();
        let rest = records.iter_mut().find_map(|record| match record {
            Record::Leftovers(rest) => Some(rest),
            _ => None,
        });
        change(rest.unwrap());
        let violations = check(&records).violations;
        violations.into_iter().filter(|one| one.check == C10).map(|one| one.message).collect()
    }

    #[test]
    fn each_leftover_is_reported() {
        assert!(messages(|_| ()).is_empty());
        assert_eq!(messages(|rest| rest.leaked_keys.push("{fp}:q1:x".into())), ["a key is left: {fp}:q1:x"]);
        assert_eq!(
            messages(|rest| rest.crashed.push("server 2: exit 101".into())),
            ["a server ended: server 2: exit 101"]
        );
        assert_eq!(messages(|rest| rest.log_errors.push("panicked at".into())), ["a server's log: panicked at"]);
    }
}
