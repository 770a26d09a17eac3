//! Requirements of this store on a Redis, checked before the first use, and the log of a Redis that does not meet them.

use super::doctor::LAYOUT;
use crate::node::{
    NodeUrl,
    doctor::{EVICTION, Finding, ROLE, Severity},
};

/// What an operator may have chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demands {
    /// Uses a Redis also if it may evict what it keeps.
    pub(super) allows_eviction: bool,
}

impl Demands {
    /// Why a Redis of which this was found is not used, if it is not.
    pub(crate) fn refusal(self, findings: &[Finding]) -> Option<String> {
        let Finding { check, found, at_stake, change, .. } = findings.iter().find(|it| self.refuses(it))?;
        Some(if *check == EVICTION {
            format!(
                "this Redis may evict locks, so the server does not use it: {found}; {at_stake}. Change it ({change}), \
                 or allow it with --allow-eviction"
            )
        } else {
            format!("{found}: {at_stake}; {change}")
        })
    }

    pub(crate) fn log(self, url: &NodeUrl, finding: &Finding) {
        let Finding { check, found, at_stake, change, .. } = finding;
        match self.words(finding) {
            None => {}
            Some((Severity::Error, what)) => tracing::error!(%url, check, found, at_stake, change, "{what}"),
            Some((_, what)) => tracing::warn!(%url, check, found, at_stake, change, "{what}"),
        }
    }

    /// How bad a finding is for a server that is connected to this Redis, and the words for it.
    fn words(self, finding: &Finding) -> Option<(Severity, &'static str)> {
        Some(match (finding.severity, finding.check) {
            (Severity::Ok, _) => return None,
            (_, EVICTION) if self.refuses(finding) => {
                (Severity::Error, "redis may evict locks: the server does not use it without --allow-eviction")
            }
            // Servers connect to a primary only.
            (Severity::Error, ROLE) => {
                (Severity::Warning, "redis is a primary no more: the server looks for the primary")
            }
            (Severity::Error, check) if check != EVICTION => (Severity::Error, "redis is not fit for locks"),
            _ => (Severity::Warning, "redis puts locks at risk: see fencepost doctor"),
        })
    }

    fn refuses(self, finding: &Finding) -> bool {
        let is_demanded = finding.check == LAYOUT || finding.check == EVICTION && !self.allows_eviction;
        is_demanded && finding.severity == Severity::Error
    }
}

/// The findings that count for a server that is connected to this Redis. Where it was demoted, that is the reason for
/// all others (its keys cannot be written, say), and the server leaves it.
pub(super) fn of_primary(mut findings: Vec<Finding>) -> Vec<Finding> {
    let is_demoted = |it: &Finding| it.check == ROLE && it.severity == Severity::Error;
    if findings.iter().any(is_demoted) {
        findings.retain(is_demoted);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_that_may_evict_or_has_locks_of_an_earlier_version_is_refused() {
        let of = |check, allows_eviction| {
            let findings = [Finding::ok("role", "x"), Finding::error(check, "found", "at stake", "change")];
            Demands { allows_eviction }.refusal(&findings)
        };
        assert!(of(EVICTION, false).is_some_and(|why| why.contains("--allow-eviction")));
        assert_eq!(of(EVICTION, true), None);
        assert!(of(LAYOUT, true).is_some_and(|why| why.contains("at stake; change")));
        assert_eq!(of("memory", false), None);
        let warned = [Finding::warning(EVICTION, "found", "at stake", "change")];
        assert_eq!(Demands { allows_eviction: false }.refusal(&warned), None);
    }

    #[test]
    fn a_redis_that_was_demoted_is_no_error_of_its_operator() {
        let of = |check| {
            let words = Demands { allows_eviction: false }.words(&Finding::error(check, "found", "at stake", "change"));
            words.map(|(severity, what)| (severity, what.split(':').next().unwrap_or_default()))
        };
        assert_eq!(of("memory"), Some((Severity::Error, "redis is not fit for locks")));
        assert_eq!(of(EVICTION), Some((Severity::Error, "redis may evict locks")));
        assert_eq!(of(ROLE), Some((Severity::Warning, "redis is a primary no more")));
        let allowing = Demands { allows_eviction: true };
        let evicts = Finding::error(EVICTION, "found", "at stake", "change");
        assert_eq!(allowing.words(&evicts).map(|(severity, _)| severity), Some(Severity::Warning));
        assert_eq!(allowing.words(&Finding::ok(ROLE, "found")), None);
    }

    #[test]
    fn of_a_redis_that_was_demoted_nothing_else_counts() {
        let error = |check| Finding::error(check, "found", "at stake", "change");
        let counts = |findings: &[Finding]| of_primary(findings.to_vec()).iter().map(|it| it.check).collect::<Vec<_>>();
        assert_eq!(counts(&[error("keys"), error(ROLE), error("memory")]), [ROLE]);
        assert_eq!(counts(&[error("keys"), Finding::ok(ROLE, "a primary")]), ["keys", ROLE]);
    }
}
