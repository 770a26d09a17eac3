//! JSON Web Tokens: who issues them, and what has to be true of one.
//!
//! The header of a token is its sender's word. It chooses among the keys of the issuer and among the algorithms that
//! the access file names, and nothing else: an address or a key in it is ignored, and what would have to be understood
//! (`crit`), or is encrypted, is refused.

use super::{
    file::JwtEntry,
    jwks,
    keys_at::{KeysAt, KeysUrl},
    policy::Refusal,
    signature,
};
use jsonwebtoken::{
    Algorithm, Header, TokenData, Validation, dangerous::insecure_decode_claims, decode, decode_header,
    errors::ErrorKind,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, Ordering};

/// How far the clock of an issuer may be ahead, for `nbf`. `exp` has no such allowance: streams end at it.
const AHEAD_MAX_SECONDS: u64 = 60;
/// The longest identity, in bytes. It is logged, and shown to its owner.
pub(super) const IDENTITY_BYTES_MAX: usize = 512;

/// An issuer of tokens.
pub(super) struct Issuer {
    issuer: String,
    /// What each of its algorithms has to satisfy. `jsonwebtoken` wants those of one validation to be of one family.
    validations: Vec<(Algorithm, Validation)>,
    keys: Vec<jwks::Key>,
    /// Where the keys are fetched.
    url: Option<KeysUrl>,
    /// A token named a key that is not among them.
    lacks_key: AtomicBool,
    claim: String,
    prefix: String,
}

/// Who the bearer of a valid token is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bearer {
    pub(super) name: String,
    pub(super) expires: i64,
}

/// What chooses the issuer, before anything is verified.
#[derive(Deserialize)]
struct Unverified {
    iss: String,
}

impl Issuer {
    /// An issuer with these keys; without any if they were not fetched yet. The error is the end of a sentence about
    /// their file.
    pub(super) fn new(entry: &JwtEntry, keys: Option<&[u8]>) -> Result<Self, String> {
        signature::install();
        let algorithms: Vec<Algorithm> =
            entry.algorithms.get_ref().iter().map(|algorithm| algorithm.of_token()).collect();
        let validation = |algorithm: &Algorithm| {
            let mut validation = Validation::new(*algorithm);
            validation.set_audience(&[&*entry.audience]);
            validation.set_issuer(&[&*entry.issuer]);
            validation.set_required_spec_claims(&["exp", "iss", "aud"]);
            validation.validate_nbf = true;
            validation.leeway = AHEAD_MAX_SECONDS;
            (*algorithm, validation)
        };
        Ok(Self {
            issuer: entry.issuer.to_string(),
            validations: algorithms.iter().map(validation).collect(),
            keys: keys.map_or_else(|| Ok(Vec::new()), |keys| jwks::read(keys, &algorithms))?,
            url: if let KeysAt::Url(url) = entry.keys.get_ref() { Some(url.clone()) } else { None },
            lacks_key: AtomicBool::new(false),
            claim: entry.claim.to_string(),
            prefix: entry.prefix.to_string(),
        })
    }

    /// Where its keys are fetched, if they are.
    pub(super) fn url(&self) -> Option<&KeysUrl> {
        self.url.as_ref()
    }

    /// Whether its keys should be fetched at once.
    pub(super) fn wants_keys(&self) -> bool {
        self.keys.is_empty() || self.lacks_key.load(Ordering::Relaxed)
    }

    /// They were fetched.
    pub(super) fn wants_no_keys(&self) {
        self.lacks_key.store(false, Ordering::Relaxed);
    }

    /// Whether it could use these keys. The error is the end of a sentence about them.
    pub(super) fn check(&self, keys: &[u8]) -> Result<(), String> {
        let algorithms: Vec<Algorithm> = self.validations.iter().map(|(algorithm, _)| *algorithm).collect();
        jwks::read(keys, &algorithms).map(drop)
    }

    fn verify(&self, token: &str, header: &Header, now: i64) -> Result<Bearer, Refusal> {
        let validation = self.validations.iter().find(|(algorithm, _)| *algorithm == header.alg);
        let (_, validation) = validation.ok_or(Refusal::Invalid)?;
        let mut candidates = self.keys.iter().filter(|key| key.fits(header.alg, header.kid.as_deref())).peekable();
        if candidates.peek().is_none() {
            self.lacks_key.store(true, Ordering::Relaxed);
        }
        for candidate in candidates {
            match decode::<Map<String, Value>>(token, &candidate.key, validation) {
                Ok(TokenData { claims, .. }) => return self.bearer(&claims, now),
                Err(error) => match error.kind() {
                    ErrorKind::InvalidSignature => {}
                    ErrorKind::ExpiredSignature => return Err(Refusal::Expired),
                    _ => return Err(Refusal::Invalid),
                },
            }
        }
        Err(Refusal::Invalid)
    }

    /// Who has a token with these claims, which are verified.
    fn bearer(&self, claims: &Map<String, Value>, now: i64) -> Result<Bearer, Refusal> {
        let expires = claims.get("exp").and_then(seconds).ok_or(Refusal::Invalid)?;
        if expires <= now {
            return Err(Refusal::Expired);
        }
        let name = claims.get(&self.claim).and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = format!("{}{}", self.prefix, name.ok_or(Refusal::Invalid)?);
        if name.len() > IDENTITY_BYTES_MAX || name.contains(char::is_control) {
            return Err(Refusal::Invalid);
        }
        Ok(Bearer { name, expires })
    }
}

/// A time in Unix seconds. Some issuers write a fraction.
fn seconds(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a float beyond the range becomes its end")]
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

/// Verifies a token of one of these issuers.
pub(super) fn verify(issuers: &[Issuer], token: &str, now: i64) -> Result<Bearer, Refusal> {
    let header = decode_header(token).map_err(|_| Refusal::Invalid)?;
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err(Refusal::Invalid);
    }
    let Unverified { iss } = insecure_decode_claims(token).map_err(|_| Refusal::Invalid)?;
    let mut refusal = Refusal::Invalid;
    // One issuer may have several entries, such as for two audiences.
    for issuer in issuers.iter().filter(|issuer| issuer.issuer == iss) {
        match issuer.verify(token, &header, now) {
            Err(Refusal::Expired) => refusal = Refusal::Expired,
            Err(_) => {}
            verified => return verified,
        }
    }
    Err(refusal)
}
