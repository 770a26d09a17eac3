//! The access file as it is written. All rules about single values are in the types of the values, so that each error
//! has the place of its value.

use super::{
    certificate::SanPattern, grants::Names, jwt::IDENTITY_BYTES_MAX, keys_at::KeysAt, token::Digest, verb::Verb,
};
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use std::{num::NonZeroU32, ops::Deref};
use toml::{Spanned, value::Datetime};

/// The most acquires in a second that a quota names.
const RATE_MAX: u32 = 1_000_000;

/// Whether what no rule permits is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It is carried out, and neither counted nor logged: no rule counts, and identities are only for quotas and for
    /// people.
    Open,
    /// It is counted and logged, and carried out.
    Observe,
    /// It is refused.
    Enforce,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessFile {
    pub(super) mode: Mode,
    #[serde(default)]
    pub(super) token: Vec<TokenEntry>,
    #[serde(default)]
    pub(super) jwt: Vec<JwtEntry>,
    #[serde(default)]
    pub(super) certificate: Vec<CertificateEntry>,
    #[serde(default)]
    pub(super) rule: Vec<RuleEntry>,
    #[serde(default)]
    pub(super) quota: Vec<Spanned<QuotaEntry>>,
}

/// A static token. Two of one name are both valid, which is how a token is replaced.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenEntry {
    pub(super) name: Text,
    pub(super) sha256: Spanned<Digest>,
    pub(super) expires: Option<Spanned<Datetime>>,
}

/// An issuer of JSON Web Tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JwtEntry {
    pub(super) issuer: Text,
    pub(super) audience: Text,
    pub(super) keys: Spanned<KeysAt>,
    pub(super) algorithms: Spanned<Vec<TokenAlgorithm>>,
    #[serde(default = "subject")]
    pub(super) claim: Text,
    /// Keeps the identities of an issuer apart from all others.
    pub(super) prefix: Spanned<Text>,
}

fn subject() -> Text {
    Text("sub".to_owned())
}

/// Client certificates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CertificateEntry {
    pub(super) san: SanPattern,
    /// The identity; the name in the certificate unless it is given.
    pub(super) name: Option<Text>,
}

/// A rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    pub(super) who: Spanned<Vec<Who>>,
    pub(super) may: Spanned<Vec<Verb>>,
    #[serde(default)]
    pub(super) locks: Vec<Names>,
}

/// A quota. The first that names an identity is that identity's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaEntry {
    pub(super) who: Option<Spanned<Vec<Who>>>,
    /// Whether it is for callers without an identity, who are told apart by their addresses.
    #[serde(default)]
    pub(super) each_address: bool,
    #[serde(default)]
    pub(super) mode: QuotaMode,
    pub(super) acquires_per_second: Option<Rate>,
    pub(super) burst: Option<Spanned<NonZeroU32>>,
    pub(super) waits: Option<NonZeroU32>,
    pub(super) leases: Option<NonZeroU32>,
    pub(super) streams: Option<NonZeroU32>,
    pub(super) connections: Option<NonZeroU32>,
}

/// Whether what is above a quota is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuotaMode {
    /// It is counted and logged, and carried out.
    Observe,
    /// It is refused.
    #[default]
    Enforce,
}

/// So many in a second.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "NonZeroU32")]
pub(super) struct Rate(pub(super) NonZeroU32);

impl TryFrom<NonZeroU32> for Rate {
    type Error = String;

    fn try_from(rate: NonZeroU32) -> Result<Self, Self::Error> {
        // More would be a fraction of a microsecond each: no server carries that out.
        if rate.get() <= RATE_MAX { Ok(Self(rate)) } else { Err(format!("must be at most {RATE_MAX}")) }
    }
}

/// An algorithm of a token. There are no others: those with a shared secret would make each server an issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum TokenAlgorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl TokenAlgorithm {
    pub(super) fn of_token(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// A text that is not empty, and has no control characters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Text(String);

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let fits = (1..=IDENTITY_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
        if fits {
            Ok(Self(text))
        } else {
            Err(format!("must have 1 to {IDENTITY_BYTES_MAX} bytes, none of them control characters"))
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// Whom a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Who {
    /// The identity of this name.
    Exact(String),
    /// All identities whose names begin so.
    Prefix(String),
}

impl TryFrom<String> for Who {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // No identity has such a name.
        if text.len() > IDENTITY_BYTES_MAX || text.contains(char::is_control) {
            return Err(format!("must have 1 to {IDENTITY_BYTES_MAX} bytes, none of them control characters"));
        }
        match text.strip_suffix('*') {
            None if text.is_empty() => Err("must name an identity, or all of them as \"*\"".to_owned()),
            None if !text.contains('*') => Ok(Self::Exact(text)),
            Some(prefix) if !prefix.contains('*') => Ok(Self::Prefix(prefix.to_owned())),
            _ => Err(format!("{text:?} may have one *, at its end")),
        }
    }
}

impl Who {
    pub(super) fn includes(&self, identity: &str) -> bool {
        match self {
            Self::Exact(name) => identity == name,
            Self::Prefix(prefix) => identity.starts_with(prefix.as_str()),
        }
    }
}
