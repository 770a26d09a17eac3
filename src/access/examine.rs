//! What is odd in an access file that can be used: rules and quotas for nobody, identities without a rule, tokens that
//! end soon.

use super::{
    contents::Contents,
    error::{AccessError, place},
    fetched::Fetched,
    file::{AccessFile, Mode, QuotaEntry, RuleEntry, TokenEntry, Who},
    grants::Names,
    policy::{Policy, unix_time},
};
use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, SystemTime},
};

/// A token that expires within this time is to be replaced now.
const EXPIRY_NOTICE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// An access file that can be used.
#[derive(Debug)]
pub struct Examined {
    /// What is in it, for people.
    pub summary: String,
    /// What is odd in it, in the order of the file.
    pub oddities: Vec<Oddity>,
}

/// Something odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// Its kind, the same in every version.
    pub kind: &'static str,
    /// What was found.
    pub found: String,
    /// What that means.
    pub at_stake: &'static str,
    /// What to do.
    pub change: &'static str,
}

/// Reads and checks a file as a server does, and looks for what is odd in it, at this Unix time.
pub fn examine(path: &Path, now: i64) -> Result<Examined, AccessError> {
    let (file, contents) = Contents::read(path, &Fetched::default())?;
    let text = contents.text.as_str();
    let rules = file.rule.iter().enumerate().map(|(index, rule)| Rule::new(index, rule, text));
    let rules: Vec<Rule<'_>> = rules.collect();
    let mut oddities: Vec<_> = file.token.iter().filter_map(|token| expiry(token, text, now)).collect();
    // Rules do not count, so nobody needs one.
    if file.mode != Mode::Open {
        oddities.extend(without_rule(&file));
    }
    oddities.extend(of_issuers(&file));
    oddities.extend(rules.iter().flat_map(|rule| rule.for_nobody(&file)));
    oddities.extend(rules.iter().flat_map(Rule::inside_others));
    oddities.extend(without_effect(&file, text));
    let policy = Policy::new(file, &contents)?;
    let mode = match policy.mode {
        Mode::Open => "open (nothing is refused, quotas count)",
        Mode::Observe => "observe (nothing is refused yet)",
        Mode::Enforce => "enforce",
    };
    let [tokens, issuers, certificates, rules, quotas] = policy.counts();
    let summary = format!(
        "the file can be used: mode {mode}; entries: token {tokens}, jwt {issuers}, certificate {certificates}, rule \
         {rules}, quota {quotas}"
    );
    Ok(Examined { summary, oddities })
}

fn expiry(token: &TokenEntry, text: &str, now: i64) -> Option<Oddity> {
    let at = unix_time(token.expires.as_ref()?.get_ref())?;
    let (line, _) = place(text, token.sha256.span().start);
    let date = u64::try_from(at).map_or_else(|_| "before 1970".to_owned(), |at| format!("at {}", written(at)));
    let notice = i64::try_from(EXPIRY_NOTICE.as_secs()).unwrap_or(i64::MAX);
    let (found, at_stake) = match at.saturating_sub(now) {
        ..=0 => (format!("the token {:?} (line {line}) has expired {date}", &*token.name), "it is refused"),
        left if left < notice => (
            format!("the token {:?} (line {line}) expires {date}", &*token.name),
            "its client is refused from then on, and loses its locks",
        ),
        _ => return None,
    };
    let change = "put a new one beside it (fencepost token new), give its client that, and remove this entry";
    Some(Oddity { kind: "expiry", found, at_stake, change })
}

fn written(at: u64) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at));
    at.map_or_else(|| "never".to_owned(), |at| humantime::format_rfc3339_seconds(at).to_string())
}

/// The entries whose identities no rule can name.
fn without_rule(file: &AccessFile) -> Vec<Oddity> {
    let who = || file.rule.iter().flat_map(|rule| rule.who.get_ref());
    let tokens = file.token.iter().map(|token| &*token.name);
    let certificates = file.certificate.iter();
    let named = tokens.chain(certificates.clone().filter_map(|entry| entry.name.as_deref()));
    let named: BTreeSet<&str> = named.filter(|name| !who().any(|who| who.includes(name))).collect();
    let unnamed = certificates.filter(|entry| entry.name.is_none() && !who().any(|who| entry.san.can_be(who)));
    let issued = file.jwt.iter().map(|entry| &**entry.prefix.get_ref());
    let issued = issued.filter(|prefix| !who().any(|who| is_issued(prefix, who)));
    let found = named.into_iter().map(|name| format!("no rule names the identity {name:?}"));
    let found = found.chain(unnamed.map(|entry| format!("no rule names a certificate of {:?}", entry.san.written())));
    let found = found.chain(issued.map(|prefix| format!("no rule names an identity that begins with {prefix:?}")));
    let at_stake = "it is permitted nothing";
    let change = "name it in the who of a rule, or remove the entry";
    found.map(|found| Oddity { kind: "identity", found, at_stake, change }).collect()
}

/// The names that an issuer can give as well.
fn of_issuers(file: &AccessFile) -> Vec<Oddity> {
    let tokens = file.token.iter().map(|token| &*token.name);
    let named: BTreeSet<&str> =
        tokens.chain(file.certificate.iter().filter_map(|entry| entry.name.as_deref())).collect();
    let prefixes = || file.jwt.iter().map(|entry| &**entry.prefix.get_ref());
    let is_of = |name: &str, prefix: &str| is_issued(prefix, &Who::Exact(name.to_owned()));
    let both = named.into_iter().filter_map(|name| Some((name, prefixes().find(|prefix| is_of(name, prefix))?)));
    both.map(|(name, prefix)| Oddity {
        kind: "issuer",
        found: format!("the identity {name:?} has a name as the issuer with the prefix {prefix:?} gives"),
        at_stake: "whoever gets such a token from the issuer is permitted what this one is",
        change: "give the token or the certificate a name that does not begin with the prefix",
    })
    .collect()
}

/// Whether an issuer with this prefix can name such an identity.
fn is_issued(prefix: &str, who: &Who) -> bool {
    match who {
        Who::Exact(name) => name.len() > prefix.len() && name.starts_with(prefix),
        Who::Prefix(beginning) => beginning.starts_with(prefix) || prefix.starts_with(beginning.as_str()),
    }
}

/// A rule of the file.
struct Rule<'a> {
    /// As `access check` names it.
    name: String,
    entry: &'a RuleEntry,
}

impl<'a> Rule<'a> {
    fn new(index: usize, entry: &'a RuleEntry, text: &str) -> Self {
        let (line, _) = place(text, entry.who.span().start);
        Self { name: format!("rule {} (line {line})", index + 1), entry }
    }

    /// For each of `who` that nobody can be.
    fn for_nobody(&self, file: &AccessFile) -> Vec<Oddity> {
        let nobody = self.entry.who.get_ref().iter().filter(|who| !file.can_be(who));
        nobody
            .map(|who| Oddity {
                kind: "rule",
                found: format!("{}: nobody can be {:?}", self.name, who.written()),
                at_stake: "what it permits, it permits nobody: perhaps the name is misspelt",
                change: "write the name as a token, a certificate or the prefix of an issuer has it, or remove it",
            })
            .collect()
    }

    /// For each of `locks` that another one of the rule includes.
    fn inside_others(&self) -> Vec<Oddity> {
        let locks = &self.entry.locks;
        let inside = locks.iter().enumerate().filter_map(|(index, inner)| {
            let others = locks.iter().enumerate().filter(|(other, _)| *other != index);
            // Of two that are the same, the second one.
            let mut outer = others.filter(|(other, names)| names.contain(inner) && (*other < index || inner != *names));
            outer.next().map(|(_, outer)| (inner, outer))
        });
        inside
            .map(|(inner, outer)| Oddity {
                kind: "locks",
                found: format!("{}: {:?} includes {:?}", self.name, outer.written(), inner.written()),
                at_stake: "the second changes nothing: perhaps it was to be all that the rule permits",
                change: "remove one of the two",
            })
            .collect()
    }
}

impl AccessFile {
    /// Whether an identity of the file can be one of these.
    fn can_be(&self, who: &Who) -> bool {
        self.token.iter().any(|token| who.includes(&token.name))
            || self.jwt.iter().any(|entry| is_issued(entry.prefix.get_ref(), who))
            || self.certificate.iter().any(|entry| match &entry.name {
                Some(name) => who.includes(name),
                None => entry.san.can_be(who),
            })
    }
}

/// The quotas that count for nobody.
fn without_effect(file: &AccessFile, text: &str) -> Vec<Oddity> {
    let whom = |quota: &'_ QuotaEntry| quota.who.as_ref().map(|who| who.get_ref().clone()).unwrap_or_default();
    let mut before: Vec<Who> = Vec::new();
    let mut odd = Vec::new();
    for (index, quota) in file.quota.iter().enumerate() {
        let name = format!("quota {} (line {})", index + 1, place(text, quota.span().start).0);
        let (who, each_address) = (whom(quota.get_ref()), quota.get_ref().each_address);
        let is_hidden = |who: &Who| before.iter().any(|before| before.contain(who));
        let (found, at_stake, change) = if each_address && file.mode == Mode::Enforce {
            (
                format!("{name}: is for callers without an identity"),
                "the file refuses them, so it counts for nobody",
                "name identities in who, or remove it",
            )
        } else if !each_address && who.iter().all(is_hidden) {
            (
                format!("{name}: all whom it names are named by a quota before it"),
                "the first quota that names an identity counts, so this one counts for nobody",
                "put it before the other one, or remove it",
            )
        } else if let Some(nobody) = who.iter().find(|who| !file.can_be(who)) {
            (
                format!("{name}: nobody can be {:?}", nobody.written()),
                "who was meant may have no quota: perhaps the name is misspelt",
                "write the name as a token, a certificate or the prefix of an issuer has it, or remove it",
            )
        } else {
            before.extend(who);
            continue;
        };
        before.extend(who);
        odd.push(Oddity { kind: "quota", found, at_stake, change });
    }
    odd
}

impl Who {
    /// Whether all of these are among its own.
    fn contain(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(own), Self::Prefix(text) | Self::Exact(text)) => text.starts_with(own.as_str()),
            (Self::Exact(_), _) => self == other,
        }
    }

    /// As a rule writes it.
    fn written(&self) -> String {
        match self {
            Self::Exact(name) => name.clone(),
            Self::Prefix(beginning) => format!("{beginning}*"),
        }
    }
}

impl Names {
    /// Whether all locks of these names are among its own.
    fn contain(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(_), Self::Prefix(text) | Self::Exact(text)) => self.includes(text),
            (Self::Exact(_), _) => self == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn oddities(text: &str) -> Vec<(&'static str, String)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.toml");
        std::fs::write(&path, format!("mode = \"enforce\"\n{text}")).unwrap();
        let examined = examine(&path, NOW).unwrap();
        examined.oddities.into_iter().map(|oddity| (oddity.kind, oddity.found)).collect()
    }

    fn token(name: &str, digit: char, more: &str) -> String {
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{}\"\n{more}\n", digit.to_string().repeat(64))
    }

    fn rule(who: &str, locks: &str) -> String {
        format!("[[rule]]\nwho = {who}\nmay = [\"read\"]\nlocks = {locks}\n")
    }

    #[test]
    fn a_file_without_oddities_has_none() {
        let certificates =
            "[[certificate]]\nsan = \"spiffe://a/ns/*/x\"\n[[certificate]]\nsan = \"*.b.example\"\nname = \"b\"\n";
        let text = token("a", '1', "expires = 2027-02-15T00:00:00Z")
            + certificates
            + &rule("[\"a\", \"b\", \"spiffe://a/ns/p*\"]", "[\"x/\", \"xy\", \"=y\"]")
            + &rule("[\"*\", \"spiffe://a/ns/pay/x\", \"spiffe://a/*\"]", "[\"\"]");
        assert_eq!(oddities(&text), []);
    }

    #[test]
    fn each_oddity_names_its_place() {
        let text = token("old", '1', "expires = 2027-01-15T08:00:00Z")
            + &token("soon", '2', "expires = 2027-01-29T07:59:59Z")
            + &token("lone", '3', "expires = 2027-01-29T08:00:00Z")
            + "[[certificate]]\nsan = \"spiffe://b/*\"\n"
            + &rule("[\"old\", \"sooon\", \"soon*\"]", "[\"x/\", \"x/y\", \"=x/z\", \"=y\"]")
            + &rule("[\"spiffe://c/x\", \"spiffe://b/x/y\", \"soon2*\"]", "[\"y\", \"y\"]");
        let found = |kind, text: &str| (kind, text.to_owned());
        let expected = [
            found("expiry", "the token \"old\" (line 4) has expired at 2027-01-15T08:00:00Z"),
            found("expiry", "the token \"soon\" (line 8) expires at 2027-01-29T07:59:59Z"),
            found("identity", "no rule names the identity \"lone\""),
            found("identity", "no rule names a certificate of \"spiffe://b/*\""),
            found("rule", "rule 1 (line 17): nobody can be \"sooon\""),
            found("rule", "rule 2 (line 21): nobody can be \"spiffe://c/x\""),
            found("rule", "rule 2 (line 21): nobody can be \"spiffe://b/x/y\""),
            found("rule", "rule 2 (line 21): nobody can be \"soon2*\""),
            found("locks", "rule 1 (line 17): \"x/\" includes \"x/y\""),
            found("locks", "rule 1 (line 17): \"x/\" includes \"=x/z\""),
            found("locks", "rule 2 (line 21): \"y\" includes \"y\""),
        ];
        assert_eq!(oddities(&text), expected);
    }

    #[test]
    fn quotas_that_count_for_nobody_are_told() {
        let quota = |lines: &str| format!("[[quota]]\nwaits = 1\n{lines}\n");
        let text = token("a", '1', "")
            + &token("ab", '2', "")
            + &rule("[\"*\"]", "[\"\"]")
            + &quota("who = [\"a*\"]")
            + &quota("who = [\"ab\", \"a\"]")
            + &quota("who = [\"c\"]")
            + &quota("who = [\"*\"]")
            + &quota("each_address = true");
        let found = |text: &str| ("quota", text.to_owned());
        let expected = [
            found("quota 2 (line 17): all whom it names are named by a quota before it"),
            found("quota 3 (line 20): nobody can be \"c\""),
            found("quota 5 (line 26): is for callers without an identity"),
        ];
        assert_eq!(oddities(&text), expected);
    }

    #[test]
    fn a_name_that_an_issuer_can_give_is_told() {
        let issuer = "[[jwt]]\nissuer = \"https://i.example\"\naudience = \"fencepost\"\nprefix = \"k8s:\"\n\
                      keys = \"https://i.example/jwks.json\"\nalgorithms = [\"ES256\"]\n";
        let text = token("k8s:pay", '1', "")
            + &token("k8s:", '2', "")
            + &token("k8", '3', "")
            + "[[certificate]]\nsan = \"b.example\"\nname = \"k8s:b\"\n"
            + issuer
            + &rule("[\"k8*\"]", "[\"x/\"]");
        let found = |name: &str| {
            ("issuer", format!("the identity \"{name}\" has a name as the issuer with the prefix \"k8s:\" gives"))
        };
        assert_eq!(oddities(&text), [found("k8s:b"), found("k8s:pay")]);
    }

    #[test]
    fn an_issuer_can_name_whoever_begins_with_its_prefix() {
        let exact = |name: &str| Who::Exact(name.to_owned());
        let beginning = |text: &str| Who::Prefix(text.to_owned());
        for who in [exact("k8s:a"), beginning("k8s:a"), beginning("k8s:"), beginning("k8"), beginning("")] {
            assert!(is_issued("k8s:", &who), "{who:?}");
        }
        for who in [exact("k8s:"), exact("k8s"), beginning("k8t")] {
            assert!(!is_issued("k8s:", &who), "{who:?}");
        }
    }
}
