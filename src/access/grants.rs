//! What one identity may do: for each verb the lock names, sorted, so that a check is one binary search.

use super::verb::Verb;
use serde::Deserialize;

/// What an entry of `locks` in a rule permits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Names {
    /// All names that begin so.
    Prefix(String),
    /// The lock of this name.
    Exact(String),
}

impl TryFrom<String> for Names {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if let Some(name) = text.strip_prefix('=') {
            let missing = || "= needs the name of a lock behind it".to_owned();
            return if name.is_empty() { Err(missing()) } else { Ok(Self::Exact(name.to_owned())) };
        }
        // Somebody meant a wildcard. Taken for a prefix, it would permit nothing.
        if text.ends_with('*') {
            return Err(format!("{text:?} is a prefix, and needs no * at its end: leave that out (\"\" is all locks)"));
        }
        Ok(Self::Prefix(text))
    }
}

impl Names {
    fn text(&self) -> &str {
        match self {
            Self::Prefix(text) | Self::Exact(text) => text,
        }
    }

    pub(super) fn includes(&self, name: &str) -> bool {
        match self {
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
            Self::Exact(exact) => name == exact,
        }
    }

    /// As a rule writes it.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Prefix(prefix) => prefix.clone(),
            Self::Exact(name) => format!("={name}"),
        }
    }
}

/// The lock names that an identity may use for one verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Locks {
    /// Whether any rule permits the verb.
    permitted: bool,
    /// Sorted, and none is inside another one. So the only one that can include a name is the last that is not after
    /// it: whatever is between a prefix and a name that begins with it begins with that prefix too.
    names: Box<[Names]>,
}

impl Locks {
    fn of<'a>(names: impl Iterator<Item = &'a Names>) -> Box<[Names]> {
        let mut all: Vec<&Names> = names.collect();
        // A prefix comes before the exact name that is the same text, which it includes.
        all.sort_by_key(|names| (names.text(), matches!(names, Names::Exact(_))));
        let mut kept: Vec<Names> = Vec::new();
        for names in all {
            if !kept.last().is_some_and(|last| last.includes(names.text())) {
                kept.push(names.clone());
            }
        }
        kept.into()
    }

    /// The only entry that may include this text.
    fn candidate(&self, text: &str) -> Option<&Names> {
        let after = self.names.partition_point(|names| names.text() <= text);
        self.names.get(after.checked_sub(1)?)
    }
}

/// What one identity may do: the union of the rules that name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants([Locks; Verb::ALL.len()]);

impl Grants {
    /// The union of these rules: verbs, and lock names.
    pub(super) fn union<'a>(rules: &(impl Iterator<Item = (&'a [Verb], &'a [Names])> + Clone)) -> Self {
        Self(Verb::ALL.map(|verb| {
            let mut rules = rules.clone().filter(|(verbs, _)| verbs.contains(&verb)).peekable();
            Locks { permitted: rules.peek().is_some(), names: Locks::of(rules.flat_map(|(_, names)| names)) }
        }))
    }

    fn of(&self, verb: Verb) -> &Locks {
        &self.0[verb as usize]
    }

    /// Whether the verb is permitted at all.
    pub fn permit(&self, verb: Verb) -> bool {
        self.of(verb).permitted
    }

    /// Whether the verb is permitted on the lock of this name.
    pub fn permit_lock(&self, verb: Verb, name: &str) -> bool {
        self.of(verb).candidate(name).is_some_and(|names| names.includes(name))
    }

    /// Whether the verb is permitted on all locks whose names begin so.
    pub fn permit_prefix(&self, verb: Verb, prefix: &str) -> bool {
        let candidate = self.of(verb).candidate(prefix);
        candidate.is_some_and(|names| matches!(names, Names::Prefix(_)) && names.includes(prefix))
    }

    /// The lock names on which the verb is permitted, as rules write them.
    pub fn locks(&self, verb: Verb) -> impl ExactSizeIterator<Item = String> {
        self.of(verb).names.iter().map(Names::written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<Names> {
        texts.iter().map(|text| Names::try_from((*text).to_owned()).unwrap()).collect()
    }

    fn readable(texts: &[&str]) -> Grants {
        let (verbs, names) = ([Verb::Read], names(texts));
        Grants::union(&[(&verbs[..], &names[..])].into_iter())
    }

    #[test]
    fn a_prefix_ends_where_it_is_written() {
        let (open, closed) = (readable(&["billing"]), readable(&["billing/"]));
        for (name, in_open, in_closed) in [
            ("billing", true, false),
            ("billing/", true, true),
            ("billing/42", true, true),
            ("billing2", true, false),
            ("billin", false, false),
            ("Billing/42", false, false),
            ("a/billing/42", false, false),
            ("", false, false),
        ] {
            assert_eq!(open.permit_lock(Verb::Read, name), in_open, "{name}");
            assert_eq!(closed.permit_lock(Verb::Read, name), in_closed, "{name}");
        }
        assert!(readable(&[""]).permit_lock(Verb::Read, "any"));
    }

    #[test]
    fn an_exact_name_is_no_prefix() {
        let grants = readable(&["=report", "=a/b"]);
        assert!(grants.permit_lock(Verb::Read, "report") && grants.permit_lock(Verb::Read, "a/b"));
        for other in ["report2", "repor", "a/b/c", "a", "=report"] {
            assert!(!grants.permit_lock(Verb::Read, other), "{other}");
        }
        assert!(!grants.permit_prefix(Verb::Read, "report"), "names of other locks begin so as well");
    }

    #[test]
    fn names_inside_others_change_nothing() {
        let grants = readable(&["a/b/", "a/", "=a/x", "b", "=b", "=c", "a/"]);
        assert_eq!(grants.locks(Verb::Read).collect::<Vec<_>>(), ["a/", "b", "=c"]);
        for name in ["a/", "a/a", "a/b/c", "a/x", "a/x/y", "a/\u{10ffff}", "b", "bb", "c"] {
            assert!(grants.permit_lock(Verb::Read, name), "{name}");
        }
        for name in ["a", "a.", "a0", "cc", "\u{10ffff}"] {
            assert!(!grants.permit_lock(Verb::Read, name), "{name}");
        }
    }

    #[test]
    fn a_listed_prefix_has_to_be_inside_a_permitted_one() {
        let grants = readable(&["a/", "b/c/"]);
        for (prefix, inside) in [("a/", true), ("a/b", true), ("a", false), ("", false), ("b/", false), ("b/c/", true)]
        {
            assert_eq!(grants.permit_prefix(Verb::Read, prefix), inside, "{prefix}");
        }
    }

    #[test]
    fn the_union_of_all_rules_counts_and_each_verb_by_itself() {
        let (first, second) = (names(&["a/", "=c"]), names(&["b/"]));
        let rules = [(&[Verb::Acquire, Verb::Read][..], &first[..]), (&[Verb::Read, Verb::Operate], &second)];
        let grants = Grants::union(&rules.into_iter());
        assert!(grants.permit_lock(Verb::Acquire, "a/1") && !grants.permit_lock(Verb::Acquire, "b/1"));
        assert!(grants.permit_lock(Verb::Read, "a/1") && grants.permit_lock(Verb::Read, "b/1"));
        assert!(grants.permit(Verb::Operate) && !grants.permit(Verb::Force));
        assert!(!grants.permit_lock(Verb::Force, "a/1") && !grants.permit_lock(Verb::Check, "c"));
        assert_eq!(Grants::union(&[].into_iter()), Grants::default());
    }

    #[test]
    fn what_looks_like_a_wildcard_is_refused() {
        assert!(Names::try_from("billing/*".to_owned()).unwrap_err().contains("needs no *"));
        assert!(Names::try_from("*".to_owned()).is_err() && Names::try_from("=".to_owned()).is_err());
        assert_eq!(names(&["=odd*", "a*b"]), [Names::Exact("odd*".into()), Names::Prefix("a*b".into())]);
    }

    /// The search agrees with a look at each entry, for all short names.
    #[test]
    fn the_search_finds_what_a_look_at_each_finds() {
        let letters = ["", "a", "b", "/"];
        let texts: Vec<String> = letters
            .iter()
            .flat_map(|one| letters.iter().map(move |two| [*one, *two]))
            .flat_map(|pair| letters.iter().map(move |three| [&pair[..], &[*three]].concat().concat()))
            .collect();
        for first in &texts {
            for second in &texts {
                let rules = [format!("={second}x"), first.clone(), second.clone()];
                let listed = names(&rules.each_ref().map(String::as_str));
                let grants = readable(&rules.each_ref().map(String::as_str));
                for name in texts.iter().chain([&format!("{second}x")]) {
                    let any = listed.iter().any(|names| names.includes(name));
                    assert_eq!(grants.permit_lock(Verb::Read, name), any, "{rules:?} {name:?}");
                }
            }
        }
    }
}
