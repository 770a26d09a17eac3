//! The vote of the Sentinels on the primary.
//!
//! One Sentinel alone may be wrong: it is cut off, was reset, or lies. So the answer of a majority **of those listed**
//! counts, not of those that answered. While a failover is made known, a majority answers, but names several; then the
//! newest of these wins, by its `config-epoch`: a Sentinel raises that only with the votes of a majority of Sentinels.

use std::collections::BTreeMap;

/// What one Sentinel says of the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) struct SentinelAnswer {
    /// Where it is: `host:port`.
    pub(in crate::node) address: String,
    /// The number of the configuration that put it there.
    pub(in crate::node) epoch: u64,
    /// Whatever else the Sentinel says, as `SENTINEL MASTER` has it.
    pub(in crate::node) fields: BTreeMap<String, String>,
}

/// What a Sentinel says, or why it says nothing; none if it has not answered yet.
pub(in crate::node) type Vote = Option<Result<SentinelAnswer, String>>;

/// The address that a majority of the listed Sentinels names. No further answer changes it.
pub(in crate::node) fn majority(votes: &[Vote]) -> Option<&str> {
    let named = answers(votes).map(|answer| answer.address.as_str());
    let is_majority =
        |address: &str| answers(votes).filter(|answer| answer.address == address).count() > votes.len() / 2;
    named.into_iter().find(|address| is_majority(address))
}

/// The same, and if a majority has answered and names several, the one of the highest configuration.
pub(in crate::node) fn primary(votes: &[Vote]) -> Option<&str> {
    if let Some(address) = majority(votes) {
        return Some(address);
    }
    let newest = answers(votes).map(|answer| answer.epoch).max()?;
    let mut addresses = answers(votes).filter(|answer| answer.epoch == newest).map(|answer| answer.address.as_str());
    let address = addresses.next()?;
    // One configuration names one primary: if not, somebody is wrong, and it is not known who.
    let is_one = addresses.all(|other| other == address);
    (is_one && answers(votes).count() > votes.len() / 2).then_some(address)
}

fn answers(votes: &[Vote]) -> impl Iterator<Item = &SentinelAnswer> {
    votes.iter().flatten().filter_map(|vote| vote.as_ref().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(address: &str, epoch: u64) -> Vote {
        Some(Ok(SentinelAnswer { address: address.to_owned(), epoch, fields: BTreeMap::new() }))
    }

    fn away() -> Vote {
        Some(Err("it is away".to_owned()))
    }

    #[test]
    fn a_majority_of_those_listed_names_the_primary() {
        let (old, new) = (Some("a:1"), Some("b:1"));
        for (votes, expected) in [
            (vec![says("a:1", 1)], (old, old)),
            (vec![says("a:1", 1), says("a:1", 1), None], (old, old)),
            (vec![says("a:1", 1), says("a:1", 2), away()], (old, old)),
            // One that lies, whatever it says of itself.
            (vec![says("a:1", 1), says("b:1", 999), says("a:1", 1)], (old, old)),
            // A minority answers.
            (vec![says("a:1", 1), away(), away()], (None, None)),
            (vec![says("a:1", 1), None, None], (None, None)),
            (vec![says("a:1", 1), says("a:1", 1), away(), away()], (None, None)),
            (vec![says("a:1", 1), says("a:1", 1), away(), away(), None], (None, None)),
            // A failover is being made known.
            (vec![says("a:1", 1), says("b:1", 2), away()], (None, new)),
            (vec![says("b:1", 2), says("a:1", 1), says("c:1", 1)], (None, new)),
            (vec![says("a:1", 1), says("b:1", 2), says("b:1", 2)], (new, new)),
            (vec![says("a:1", 1), says("a:1", 1), says("b:1", 2), says("b:1", 2)], (None, new)),
            // Two for one configuration.
            (vec![says("a:1", 2), says("b:1", 2), away()], (None, None)),
            (vec![away(), away(), away()], (None, None)),
            (vec![], (None, None)),
        ] {
            assert_eq!((majority(&votes), primary(&votes)), expected, "{votes:?}");
        }
    }
}
