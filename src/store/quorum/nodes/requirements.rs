//! Requirements of this store on a Redis, checked before the first use, and the log of a Redis that does not meet them.

use super::doctor::LAYOUT;
use crate::node::{
    NodeUrl,
    doctor::{EVICTION, Finding, Severity},
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
        let Finding { check, severity, found, at_stake, change } = finding;
        match severity {
            Severity::Ok => {}
            _ if self.refuses(finding) && *check == EVICTION => {
                let what = "redis may evict locks: the server does not use it without --allow-eviction";
                tracing::error!(%url, check, found, at_stake, change, "{what}");
            }
            Severity::Error if *check != EVICTION => {
                tracing::error!(%url, check, found, at_stake, change, "redis is not fit for locks");
            }
            Severity::Error | Severity::Warning => {
                tracing::warn!(%url, check, found, at_stake, change, "redis puts locks at risk: see fencepost doctor");
            }
        }
    }

    fn refuses(self, finding: &Finding) -> bool {
        let is_demanded = finding.check == LAYOUT || finding.check == EVICTION && !self.allows_eviction;
        is_demanded && finding.severity == Severity::Error
    }
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
}
