//! Texts from outside. Each type can only be made from a text that keeps its rule.

use super::limits::{
    HOLDER_BYTES_MAX, IDENTITY_BYTES_MAX, LOCK_NAME_BYTES_MAX, METADATA_BYTES_MAX, OWNER_BYTES_MAX, REASON_BYTES_MAX,
};
use std::{fmt, sync::Arc};

/// The rule that a text broke, in words that are shown to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRule(pub String);

/// What a lock protects, as the client names it. Compared byte for byte. Copies share the text: a command has several.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Takes a name of 1 to [`LOCK_NAME_BYTES_MAX`] bytes without control characters.
    pub fn new(name: impl AsRef<str>) -> Result<Self, BrokenRule> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(BrokenRule("must not be empty".into()));
        }
        check_text(name, LOCK_NAME_BYTES_MAX)?;
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as an owned text.
    pub fn into_string(self) -> String {
        self.0.as_ref().to_owned()
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The label that a holder gives itself. It proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Holder(Box<str>);

impl Holder {
    /// Takes a label of at most [`HOLDER_BYTES_MAX`] bytes without control characters.
    pub fn new(label: String) -> Result<Self, BrokenRule> {
        check_text(&label, HOLDER_BYTES_MAX)?;
        Ok(Self(boxed(label)))
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The label as an owned text.
    pub fn into_string(self) -> String {
        self.0.into_string()
    }
}

/// A short text. A copy costs less than half of what an allocator takes to shrink a text that has room to spare.
fn boxed(text: String) -> Box<str> {
    if text.len() == text.capacity() { text.into_boxed_str() } else { (*text).into() }
}

/// The label of what acquires locks one after another, and may wait for one while it holds others. It proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Owner(Box<str>);

impl Owner {
    /// Takes a label of at most [`OWNER_BYTES_MAX`] bytes without control characters.
    pub fn new(label: String) -> Result<Self, BrokenRule> {
        check_text(&label, OWNER_BYTES_MAX)?;
        Ok(Self(boxed(label)))
    }

    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The label as an owned text.
    pub fn into_string(self) -> String {
        self.0.into_string()
    }
}

/// Who a caller is, as the server verified it. Copies share the text: one identity has many leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(Arc<str>);

impl Identity {
    /// Takes a name, of which at most [`IDENTITY_BYTES_MAX`] bytes are kept: it is only shown.
    pub fn new(name: Arc<str>) -> Self {
        if name.len() <= IDENTITY_BYTES_MAX {
            return Self(name);
        }
        let end = (0..=IDENTITY_BYTES_MAX).rfind(|at| name.is_char_boundary(*at)).unwrap_or(0);
        Self(name[..end].into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a lease was revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(Box<str>);

impl Reason {
    /// Takes a reason of 1 to [`REASON_BYTES_MAX`] bytes without control characters.
    pub fn new(reason: String) -> Result<Self, BrokenRule> {
        if reason.trim().is_empty() {
            return Err(BrokenRule("must not be empty: it goes to the log and to those who watch".into()));
        }
        check_text(&reason, REASON_BYTES_MAX)?;
        Ok(Self(reason.into_boxed_str()))
    }

    /// The reason as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Key-value pairs that a holder gives, sorted by key. In a box, so that the many requests without any do not pay for
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Metadata(Option<Box<Pairs>>);

/// At least one pair. All texts are in one allocation: thousands of small ones in allocations of their own would take a
/// dozen times the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pairs {
    text: Box<str>,
    /// The ends of the key and the value of each pair; a pair begins where the one before it ends.
    ends: Box<[(u16, u16)]>,
}

const _: () = assert!(METADATA_BYTES_MAX <= u16::MAX as usize, "the ends fit");

impl Metadata {
    /// Takes pairs whose keys and values have at most [`METADATA_BYTES_MAX`] bytes together.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, BrokenRule> {
        let mut pairs: Vec<(String, String)> = pairs.into_iter().collect();
        let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            return Err(BrokenRule(format!(
                "must have at most {METADATA_BYTES_MAX} bytes, keys and values together; it has {bytes}"
            )));
        }
        pairs.sort_unstable();
        let mut text = String::with_capacity(bytes);
        let mut add = |part: &str| {
            text.push_str(part);
            u16::try_from(text.len()).unwrap_or(u16::MAX)
        };
        let ends: Box<[_]> = pairs.iter().map(|(key, value)| (add(key), add(value))).collect();
        Ok(Self((!ends.is_empty()).then(|| Box::new(Pairs { text: text.into_boxed_str(), ends }))))
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |pairs| pairs.ends.len())
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The pairs, sorted by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let (text, ends) = self.0.as_ref().map_or(("", &[][..]), |pairs| (&*pairs.text, &*pairs.ends));
        let part = move |from: u16, to: u16| text.get(from.into()..to.into()).unwrap_or_default();
        let starts = std::iter::once(0).chain(ends.iter().map(|(_, end)| *end));
        starts.zip(ends).map(move |(start, (key, value))| (part(start, *key), part(*key, *value)))
    }
}

fn check_text(text: &str, bytes_max: usize) -> Result<(), BrokenRule> {
    if text.len() > bytes_max {
        return Err(BrokenRule(format!("must have at most {bytes_max} bytes; it has {}", text.len())));
    }
    // Nearly all names are ASCII. This check has no early exit, so the compiler vectorises it.
    if text.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(BrokenRule(format!("must not contain control characters; it has U+{:04X}", u32::from(c)))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_names_are_1_to_512_bytes_without_control_characters() {
        assert!(LockName::new(String::new()).is_err());
        assert!(LockName::new("a".repeat(LOCK_NAME_BYTES_MAX)).is_ok());
        assert!(LockName::new("a".repeat(LOCK_NAME_BYTES_MAX + 1)).is_err());
        assert!(LockName::new("ü".repeat(LOCK_NAME_BYTES_MAX / 2)).is_ok());
        assert!(LockName::new("ü".repeat(LOCK_NAME_BYTES_MAX / 2 + 1)).is_err(), "the bound is in bytes");
        for bad in ["\0", "a\nb", "\u{7f}", "\u{85}"] {
            assert!(LockName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(LockName::new("orders/42 ✓").map(|name| name.to_string()), Ok("orders/42 ✓".into()));
    }

    #[test]
    fn labels_may_be_empty_and_reasons_may_not() {
        assert!(Holder::new(String::new()).is_ok());
        assert!(Holder::new("h".repeat(HOLDER_BYTES_MAX)).is_ok());
        assert!(Holder::new("h".repeat(HOLDER_BYTES_MAX + 1)).is_err());
        assert!(Reason::new(" ".into()).is_err());
        assert!(Reason::new("r".repeat(REASON_BYTES_MAX)).is_ok());
        assert!(Reason::new("r".repeat(REASON_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn metadata_is_bounded_in_all_and_sorted() {
        let pair = |key: &str, bytes: usize| (key.to_string(), "v".repeat(bytes));
        assert!(Metadata::new([pair("k", METADATA_BYTES_MAX - 1)]).is_ok());
        assert!(Metadata::new([pair("k", METADATA_BYTES_MAX)]).is_err());
        let sorted = Metadata::new([pair("b", 0), pair("a", 0)]).unwrap();
        assert_eq!(sorted.pairs().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "b"]);
        let said = [("ü", "1"), ("", "empty"), ("z", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let kept = Metadata::new(said).unwrap();
        assert_eq!(kept.pairs().collect::<Vec<_>>(), [("", "empty"), ("z", ""), ("ü", "1")]);
        assert_eq!(Metadata::default().pairs().count(), 0);
    }
}
