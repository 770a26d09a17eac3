//! The findings that are in the log already, so that repeated checks log only news.

use super::{Finding, Severity};
use crate::{node::Incarnation, sync::Mutex};

/// A check and its severity.
type Kind = (&'static str, Severity);

/// The kinds of the last findings, and the incarnation that they are about.
#[derive(Debug, Default)]
pub struct Logged(Mutex<Option<(Incarnation, Vec<Kind>)>>);

impl Logged {
    /// The findings that the last check of this incarnation did not have. Remembers all of them.
    pub fn news<'a>(&self, incarnation: Incarnation, findings: &'a [Finding]) -> impl Iterator<Item = &'a Finding> {
        let kind = |finding: &Finding| -> Kind { (finding.check, finding.severity) };
        let kinds = findings.iter().map(kind).collect();
        let before = self.0.lock().replace((incarnation, kinds)).filter(|(of, _)| *of == incarnation);
        let known = before.map(|(_, kinds)| kinds).unwrap_or_default();
        findings.iter().filter(move |finding| !known.contains(&kind(finding)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_finding_is_news_once_in_an_incarnation_and_again_when_it_returns() {
        let (logged, [first, second]) = (Logged::default(), [1, 2].map(|id| Incarnation(Uuid::from_u128(id))));
        let both = [Finding::ok("a", "x"), Finding::error("a", "x", "y", "z")];
        let [fine, bad] = [&both[..1], &both[1..]];
        let news = |incarnation, findings| logged.news(incarnation, findings).cloned().collect::<Vec<_>>();
        assert_eq!(news(first, fine), fine);
        assert_eq!(news(first, &both), bad);
        assert_eq!(news(first, &both), []);
        assert_eq!(news(first, fine), []);
        assert_eq!(news(first, bad), bad);
        assert_eq!(news(second, bad), bad);
    }
}
