//! The policy of an access file: who a caller is, and what it may do.

use super::{
    certificate::{Certificate, SanPattern},
    contents::Contents,
    error::{AccessError, place},
    file::{AccessFile, JwtEntry, Mode, RuleEntry, TokenEntry, Who},
    grants::{Grants, Names},
    jwt::{self, Issuer},
    quota::{Quota, Quotas},
    token::Digest,
    verb::Verb,
};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};
use toml::value::{Datetime, Offset};

/// Why a caller has no identity. It learns no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It shows neither a token nor a certificate.
    Missing,
    /// What it shows is not valid here.
    Invalid,
    /// What it shows was valid.
    Expired,
}

/// Who a caller is, and what it may do.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: Arc<str>,
    /// What the rules permit it.
    pub grants: Grants,
    /// Until when it is known to be who it is, in Unix time.
    pub(super) expires: Option<i64>,
}

/// A checked access file.
pub struct Policy {
    /// Whether anything is refused.
    pub mode: Mode,
    tokens: HashMap<Digest, Token>,
    issuers: Vec<Issuer>,
    certificates: Vec<(SanPattern, Option<String>)>,
    rules: Vec<Rule>,
    pub(super) quotas: Quotas,
}

struct Token {
    name: String,
    expires: Option<i64>,
}

struct Rule {
    who: Vec<Who>,
    may: Vec<Verb>,
    locks: Vec<Names>,
    /// Where it is in the file.
    line: usize,
}

/// The rule that permits something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitting {
    /// Its number, counted from 1.
    pub rule: usize,
    /// Its line in the file.
    pub line: usize,
    /// The entry of its `locks` that includes the lock; none for a verb that concerns no lock.
    pub locks: Option<String>,
}

impl Policy {
    /// Checks the file.
    pub(super) fn new(file: AccessFile, contents: &Contents) -> Result<Self, AccessError> {
        let text = contents.text.as_str();
        let mut tokens = HashMap::new();
        for entry in file.token {
            let (digest, token) = token(entry, text)?;
            let span = digest.span();
            if tokens.insert(*digest.get_ref(), token).is_some() {
                return Err(AccessError::at(text, &span, "this token is in the file twice: make one for each entry"));
            }
        }
        require_own_prefixes(&file.jwt, text)?;
        let issuers = file.jwt.iter().zip(&contents.keys).map(|(entry, keys)| {
            let path = entry.keys.get_ref();
            let issuer = keys.as_ref().map_err(Clone::clone).and_then(|keys| Issuer::new(entry, keys.as_deref()));
            issuer.map_err(|why| AccessError::at(text, &entry.keys.span(), format!("{path} {why}")))
        });
        let certificates =
            file.certificate.into_iter().map(|entry| (entry.san, entry.name.map(|name| name.to_string())));
        Ok(Self {
            mode: file.mode,
            tokens,
            issuers: issuers.collect::<Result<_, _>>()?,
            certificates: certificates.collect(),
            rules: file.rule.into_iter().map(|entry| rule(entry, text)).collect::<Result<_, _>>()?,
            quotas: Quotas::new(file.quota, text)?,
        })
    }

    /// Who a caller is that shows this bearer token, or else this certificate, at this Unix time. A token that is
    /// refused is not replaced by the certificate: its sender wants to be somebody else.
    pub(super) fn identify(
        &self,
        bearer: Option<&str>,
        certificate: Option<&Certificate>,
        now: i64,
    ) -> Result<Identity, Refusal> {
        let (name, expires) = match (bearer, certificate) {
            (Some(bearer), _) => self.bearer(bearer, now)?,
            (None, Some(certificate)) => (self.holder(certificate)?, Some(certificate.expires)),
            (None, None) => return Err(Refusal::Missing),
        };
        let grants = self.grants(&name);
        let identity = Identity { name: name.into(), grants, expires };
        if identity.is_expired(now) { Err(Refusal::Expired) } else { Ok(identity) }
    }

    fn bearer(&self, bearer: &str, now: i64) -> Result<(String, Option<i64>), Refusal> {
        // A search by digest takes as long for a token that is nearly right as for any other.
        if let Some(token) = self.tokens.get(&Digest::of(bearer.as_bytes())) {
            return Ok((token.name.clone(), token.expires));
        }
        let jwt::Bearer { name, expires } = jwt::verify(&self.issuers, bearer, now)?;
        Ok((name, Some(expires)))
    }

    fn holder(&self, certificate: &Certificate) -> Result<String, Refusal> {
        let mut fitting = self.certificates.iter().filter_map(|(san, name)| Some((san.matched(certificate)?, name)));
        let (san, name) = fitting.next().ok_or(Refusal::Invalid)?;
        Ok(name.clone().unwrap_or_else(|| san.to_owned()))
    }

    /// What the rules permit this identity.
    fn grants(&self, name: &str) -> Grants {
        let own = self.rules.iter().filter(|rule| rule.is_for(name));
        Grants::union(&own.map(|rule| (&rule.may[..], &rule.locks[..])))
    }

    /// The first rule that permits an identity of this name a verb on a lock, for people.
    pub fn permitting(&self, name: &str, verb: Verb, lock: &str) -> Option<Permitting> {
        let numbered = self.rules.iter().enumerate().filter(|(_, rule)| rule.is_for(name) && rule.may.contains(&verb));
        numbered
            .map(|(index, rule)| {
                let including = rule.locks.iter().find(|names| verb.concerns_locks() && names.includes(lock));
                let locks = including.map(Names::written);
                Permitting { rule: index + 1, line: rule.line, locks }
            })
            .find(|permitting| permitting.locks.is_some() || !verb.concerns_locks())
    }

    /// The quota of an identity of this name, for people.
    pub fn quota(&self, name: &str) -> Option<&Quota> {
        self.quotas.of_identity(name).map(|quota| &**quota)
    }

    pub(super) fn issuers(&self) -> &[Issuer] {
        &self.issuers
    }

    /// How many tokens, issuers, entries for certificates, rules, and quotas there are.
    pub fn counts(&self) -> [usize; 5] {
        [self.tokens.len(), self.issuers.len(), self.certificates.len(), self.rules.len(), self.quotas.len()]
    }
}

impl Rule {
    fn is_for(&self, identity: &str) -> bool {
        self.who.iter().any(|who| who.includes(identity))
    }
}

impl Identity {
    /// Whether it is not known any more, at this Unix time, to be who it is.
    pub(super) fn is_expired(&self, now: i64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

fn token(entry: TokenEntry, text: &str) -> Result<(toml::Spanned<Digest>, Token), AccessError> {
    const RULE: &str = "must be a date and time with a zone, such as 2027-06-01T00:00:00Z";
    let expires =
        entry.expires.map(|at| unix_time(at.get_ref()).ok_or_else(|| AccessError::at(text, &at.span(), RULE)));
    Ok((entry.sha256, Token { name: entry.name.to_string(), expires: expires.transpose()? }))
}

pub(super) fn unix_time(at: &Datetime) -> Option<i64> {
    let Datetime { date: Some(date), time: Some(time), offset: Some(offset) } = at else { return None };
    let (hour, minute, second) = (time.hour, time.minute, time.second.unwrap_or_default());
    let text = format!("{date}T{hour:02}:{minute:02}:{second:02}Z");
    let since_epoch = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).as_ref().map(Duration::as_secs).ok();
    let utc = i64::try_from(humantime::parse_rfc3339(&text).ok().and_then(since_epoch)?).ok()?;
    Some(match offset {
        Offset::Z => utc,
        Offset::Custom { minutes } => utc - i64::from(*minutes) * 60,
    })
}

/// Two issuers whose prefixes begin alike could name the same identity.
fn require_own_prefixes(entries: &[JwtEntry], text: &str) -> Result<(), AccessError> {
    for (index, entry) in entries.iter().enumerate() {
        let is_shared = |other: &JwtEntry| {
            let (own, theirs) = (&**entry.prefix.get_ref(), &**other.prefix.get_ref());
            *other.issuer != *entry.issuer && (own.starts_with(theirs) || theirs.starts_with(own))
        };
        if entries[..index].iter().any(is_shared) {
            let why = "another issuer has this prefix, or the beginning of it: each needs its own, such as \"k8s:\"";
            return Err(AccessError::at(text, &entry.prefix.span(), why));
        }
        if entry.algorithms.get_ref().is_empty() {
            let why = "must name at least one of RS256, ES256, EdDSA";
            return Err(AccessError::at(text, &entry.algorithms.span(), why));
        }
    }
    Ok(())
}

fn rule(entry: RuleEntry, text: &str) -> Result<Rule, AccessError> {
    let RuleEntry { who, may, locks } = entry;
    if who.get_ref().is_empty() {
        return Err(AccessError::at(text, &who.span(), "must name at least one identity"));
    }
    if may.get_ref().is_empty() {
        return Err(AccessError::at(text, &may.span(), "must name at least one verb"));
    }
    if locks.is_empty() && may.get_ref().iter().any(|verb| verb.concerns_locks()) {
        let why = "needs locks beside it, such as locks = [\"billing/\"]: only operate concerns no lock";
        return Err(AccessError::at(text, &may.span(), why));
    }
    let (line, _) = place(text, who.span().start);
    Ok(Rule { who: who.into_inner(), may: may.into_inner(), locks, line })
}
