//! Whom to believe when members of a Redis Cluster differ on the primary of a slot.
//!
//! A primary that is cut off names itself, for as long as it does not notice. So one member alone is never believed: a
//! majority of the primaries that have slots must have answered, each with `cluster_state:ok`, with which it says that
//! it reaches a majority itself. Of what they and all others say, the claim of the highest config epoch counts, as it
//! does among the members. If two have one epoch, the slot has no primary yet: the members are about to settle that.

use super::view::Owner;
pub(in crate::node) use super::view::View;
use std::collections::BTreeSet;

/// The most primaries whose vote counts: the first by their ids, so that all servers count the same ones.
pub(in crate::node) const VOTERS_MAX: usize = 15;

/// A count of the votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) struct Count<'a> {
    /// The primary of the newest configuration.
    pub(in crate::node) owner: &'a Owner,
    /// How many primaries vote.
    pub(in crate::node) voters: usize,
    /// How many of them name this primary.
    agree: usize,
    /// How many members name it, whether they vote or not.
    naming: usize,
}

/// Why nobody is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Unnamed {
    /// No member names one.
    Nobody,
    /// Members claim the slot with the same config epoch.
    TwoClaims,
    /// Those who were asked do not know each other.
    TwoClusters,
    /// Only so many of so many voters have answered.
    NoMajority(usize, usize),
}

impl Count<'_> {
    /// Whether so many of `asked` members name this primary that nobody else needs to be heard: a majority of the
    /// voters, or, where so few vote that one of them is a majority or all are needed, also of those who were asked. A
    /// single primary that is cut off would outvote the one that was promoted.
    pub(super) fn is_agreed(self, asked: usize) -> bool {
        self.agree > self.voters / 2 && (self.voters >= 3 || self.naming > asked / 2)
    }
}

/// Counts what members say.
pub(in crate::node) fn count<'a>(views: &[&'a View]) -> Result<Count<'a>, Unnamed> {
    let newest = views.iter().max_by_key(|view| view.owner.epoch).ok_or(Unnamed::Nobody)?;
    let owner = &newest.owner;
    if views.iter().any(|view| !view.members.contains(&owner.id) && !newest.members.contains(&view.id)) {
        return Err(Unnamed::TwoClusters);
    }
    if views.iter().any(|view| view.owner.epoch == owner.epoch && view.owner.id != owner.id) {
        return Err(Unnamed::TwoClaims);
    }
    let naming = || views.iter().filter(|view| view.owner.id == owner.id && view.owner.epoch == owner.epoch);
    let voters: BTreeSet<&String> = naming().flat_map(|view| view.voters.keys()).collect();
    let voters: BTreeSet<&String> = voters.into_iter().take(VOTERS_MAX).collect();
    let of = |ids: BTreeSet<&String>| ids.intersection(&voters).count();
    let answered = of(views.iter().map(|view| &view.id).collect());
    let agree = of(naming().map(|view| &view.id).collect());
    if answered <= voters.len() / 2 {
        return Err(Unnamed::NoMajority(answered, voters.len()));
    }
    Ok(Count { owner, voters: voters.len(), agree, naming: naming().count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a member says: the owner with its epoch, and the voters. All members are known.
    fn says(id: &str, (owner, epoch): (&str, u64), voters: &[&str]) -> View {
        View {
            id: id.to_owned(),
            owner: Owner {
                id: owner.to_owned(),
                address: format!("{owner}:1"),
                epoch,
                replicas: Vec::new(),
                moves_to: None,
            },
            voters: voters.iter().map(|id| ((*id).to_owned(), None)).collect(),
            members: ["a", "b", "c", "m", "n"].map(str::to_owned).into(),
        }
    }

    fn counted(views: &[View]) -> Result<(&str, bool), Unnamed> {
        let count = count(&views.iter().collect::<Vec<_>>())?;
        Ok((count.owner.id.as_str(), count.is_agreed(views.len())))
    }

    #[test]
    fn a_majority_of_the_primaries_has_answered_and_the_newest_claim_counts() {
        let (old, new) = (["a", "b", "m"], ["a", "b", "n"]);
        let before = |id| says(id, ("m", 3), &old);
        let after = |id| says(id, ("n", 7), &new);
        for (views, expected) in [
            (vec![before("a"), before("b"), before("m")], Ok(("m", true))),
            (vec![before("a"), before("b")], Ok(("m", true))),
            // A failover is being made known.
            (vec![before("a"), after("b"), before("m")], Ok(("n", false))),
            (vec![before("a"), after("n"), before("m")], Ok(("n", false))),
            (vec![before("m"), after("a"), after("n")], Ok(("n", true))),
            // The old primary is cut off, with this server or without it.
            (vec![before("m")], Err(Unnamed::NoMajority(1, 3))),
            (vec![after("a"), after("b")], Ok(("n", true))),
            // The new one alone is not enough either, nor is it with the old one, whose vote is gone, or a replica.
            (vec![after("n")], Err(Unnamed::NoMajority(1, 3))),
            (vec![after("n"), before("m")], Err(Unnamed::NoMajority(1, 3))),
            (vec![after("n"), after("c")], Err(Unnamed::NoMajority(1, 3))),
            // One that was asked at two addresses has one vote.
            (vec![before("a"), before("a")], Err(Unnamed::NoMajority(1, 3))),
            // Two claims of one epoch.
            (vec![before("a"), says("b", ("n", 3), &new), before("m")], Err(Unnamed::TwoClaims)),
            (vec![says("m", ("m", 0), &["m"])], Ok(("m", true))),
            // The only primary is cut off, and its replica was promoted.
            (vec![says("m", ("m", 1), &["m"]), says("n", ("n", 2), &["n"])], Ok(("n", false))),
            (vec![], Err(Unnamed::Nobody)),
        ] {
            assert_eq!(counted(&views), expected, "{views:?}");
        }
    }

    #[test]
    fn an_only_primary_is_believed_early_only_with_most_of_those_who_were_asked() {
        let alone = says("m", ("m", 1), &["m"]);
        let replica = says("n", ("m", 1), &["m"]);
        let agreed = |views: &[&View], asked| count(views).unwrap().is_agreed(asked);
        assert!(agreed(&[&alone], 1) && !agreed(&[&alone], 2) && !agreed(&[&alone], 3));
        assert!(agreed(&[&alone, &replica], 3));
        let of_three = ["a", "m"].map(|id| says(id, ("m", 1), &["a", "b", "m"]));
        assert!(agreed(&of_three.iter().collect::<Vec<_>>(), 9));
    }

    #[test]
    fn views_that_differ_on_the_voters_need_a_majority_of_all_of_them() {
        let few = says("m", ("m", 3), &["m"]);
        assert_eq!(counted(std::slice::from_ref(&few)), Ok(("m", true)));
        let all = says("a", ("m", 3), &["a", "b", "c", "m"]);
        assert_eq!(counted(&[few.clone(), all.clone()]), Err(Unnamed::NoMajority(2, 4)));
        assert_eq!(counted(&[few, all, says("b", ("m", 3), &["m"])]), Ok(("m", true)));
    }

    #[test]
    fn members_of_another_cluster_are_noticed() {
        let mut other = says("x", ("y", 9), &["x", "y"]);
        other.members = ["x", "y"].map(str::to_owned).into();
        let ours = ["a", "b", "m"].map(|id| says(id, ("m", 3), &["a", "b", "m"]));
        assert_eq!(counted(&[ours.as_slice(), &[other]].concat()), Err(Unnamed::TwoClusters));
        // One that was forgotten, and knows the others still, is heard and does not vote.
        let mut forgotten = says("z", ("m", 3), &["a", "b", "z"]);
        forgotten.members.insert("z".to_owned());
        assert!(counted(&[ours.as_slice(), &[forgotten]].concat()).is_ok());
    }

    #[test]
    fn of_many_primaries_the_first_vote() {
        let ids: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let views = |which: std::ops::Range<usize>| {
            let view = |id: &&str| View {
                members: ids.iter().map(|id| (*id).to_owned()).collect(),
                ..says(id, ("050", 3), &ids)
            };
            ids[which].iter().map(view).collect::<Vec<_>>()
        };
        assert_eq!(counted(&views(0..VOTERS_MAX / 2)), Err(Unnamed::NoMajority(7, VOTERS_MAX)));
        assert_eq!(counted(&views(0..VOTERS_MAX / 2 + 1)), Ok(("050", true)));
        assert_eq!(counted(&views(VOTERS_MAX..100)), Err(Unnamed::NoMajority(0, VOTERS_MAX)));
    }
}
