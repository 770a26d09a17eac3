//! The items of a set of locks: each is a name, and how it is held.

use crate::facts;
use std::borrow::Cow;

/// One of the locks that [`Client::acquire_all`](crate::Client::acquire_all) acquires: exclusive, or shared. A name
/// alone is an exclusive one.
///
/// For hierarchies: those who work in a part share the whole, and who works on the whole excludes them.
///
/// ```no_run
/// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use fencepost_client::SetItem;
/// let items = [SetItem::shared("tenants/7"), SetItem::exclusive("tenants/7/orders/42")];
/// let locks = client.acquire_all(items).await?;
/// # locks.release().await?; Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetItem {
    pub(crate) name: String,
    pub(crate) is_shared: bool,
}

impl SetItem {
    /// A lock that excludes all others.
    pub fn exclusive(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_shared: false }
    }

    /// A lock that excludes only those that do not share it ([`Acquire::shared`](crate::Acquire::shared)).
    pub fn shared(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_shared: true }
    }
}

impl From<String> for SetItem {
    fn from(name: String) -> Self {
        Self::exclusive(name)
    }
}

impl From<&String> for SetItem {
    fn from(name: &String) -> Self {
        Self::exclusive(name)
    }
}

impl From<&str> for SetItem {
    fn from(name: &str) -> Self {
        Self::exclusive(name)
    }
}

impl From<Cow<'_, str>> for SetItem {
    fn from(name: Cow<'_, str>) -> Self {
        Self::exclusive(name)
    }
}

/// Why items are no set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoSet {
    /// The number of different names is 0, or more than one call may ask for.
    Names {
        count: usize,
    },
    TwoModes {
        name: String,
    },
}

/// Each name once, sorted by its bytes: the order in which the clients of all languages acquire locks.
pub(crate) fn ordered(mut items: Vec<SetItem>) -> Result<Vec<SetItem>, NoSet> {
    // Rust compares strings by their bytes.
    items.sort_unstable();
    items.dedup();
    if let Some(pair) = items.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(NoSet::TwoModes { name: pair[0].name.clone() });
    }
    let count = items.len();
    if count == 0 || count > facts::SET_NAMES_MAX { Err(NoSet::Names { count }) } else { Ok(items) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_bytes_and_each_is_there_once() {
        let names = ["\u{10000}", "b", "\u{ff5e}", "a", "b"].map(SetItem::from).to_vec();
        let sorted = ordered(names).unwrap_or_default();
        assert_eq!(sorted, ["a", "b", "\u{ff5e}", "\u{10000}"].map(SetItem::exclusive));
        assert_eq!(ordered(Vec::new()), Err(NoSet::Names { count: 0 }));
        let many =
            |count: usize| ordered((0..count).map(|it| it.to_string().into()).collect()).map(|items| items.len());
        assert_eq!(many(facts::SET_NAMES_MAX), Ok(facts::SET_NAMES_MAX));
        assert_eq!(many(facts::SET_NAMES_MAX + 1), Err(NoSet::Names { count: facts::SET_NAMES_MAX + 1 }));
    }

    #[test]
    fn a_name_has_one_mode() {
        let twice = vec![SetItem::shared("a"), SetItem::exclusive("b"), SetItem::shared("a")];
        assert_eq!(ordered(twice).unwrap_or_default(), [SetItem::shared("a"), SetItem::exclusive("b")]);
        let two_modes = vec![SetItem::shared("b"), SetItem::exclusive("a"), SetItem::exclusive("b")];
        assert_eq!(ordered(two_modes), Err(NoSet::TwoModes { name: "b".to_owned() }));
    }
}
