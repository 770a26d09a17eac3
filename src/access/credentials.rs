//! What a caller shows, and what the newest policy makes of it.
//!
//! A connection remembers the last credentials that it carried, and credentials remember the verdict on them. So a
//! signature is verified once for each connection and token, and once more after each change of the policy.

use super::{
    Access,
    certificate::Certificate,
    file::Mode,
    policy::{Identity, Refusal},
};
use crate::clock::unix_time;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What is before a token in an `authorization` header.
const SCHEME: &str = "Bearer";

/// A refusal is looked at again after so many seconds: a token may become valid, and a clock may be corrected.
const REFUSAL_SECONDS: i64 = 10;

/// What the callers on one connection show.
pub struct Connection {
    access: Arc<Access>,
    certificate: Option<Arc<Certificate>>,
    last: Mutex<Option<Arc<Credentials>>>,
}

/// What a caller shows.
pub struct Credentials {
    access: Arc<Access>,
    authorization: Option<Box<[u8]>>,
    /// That of `authorization`, with a seed that nobody knows. Those of different texts differ, so the time of a
    /// comparison does not tell how much of a stranger's text was right.
    hash: u64,
    certificate: Option<Arc<Certificate>>,
    verdict: Mutex<Verdict>,
}

/// What a policy makes of credentials.
#[derive(Clone)]
pub struct Verdict {
    /// The number of the policy.
    generation: u64,
    /// When it was given, in Unix time.
    at: i64,
    /// Whether it refuses anything.
    pub mode: Mode,
    /// Who the caller is.
    pub identity: Result<Arc<Identity>, Refusal>,
}

impl Connection {
    /// A connection whose client showed this certificate, as DER.
    pub fn new(access: Arc<Access>, certificate: Option<&[u8]>) -> Self {
        let certificate = certificate.and_then(Certificate::read).map(Arc::new);
        Self { access, certificate, last: Mutex::new(None) }
    }

    /// What a caller shows with this `authorization`.
    pub fn credentials(&self, authorization: Option<&[u8]>) -> Arc<Credentials> {
        let hash = xxh3_64_with_seed(authorization.unwrap_or_default(), self.access.seed);
        let mut last = self.last.lock();
        if let Some(same) =
            last.as_ref().filter(|last| last.hash == hash && last.authorization.as_deref() == authorization)
        {
            return same.clone();
        }
        let verdict = Verdict { generation: 0, at: 0, mode: Mode::Enforce, identity: Err(Refusal::Missing) };
        let credentials = Arc::new(Credentials {
            access: self.access.clone(),
            authorization: authorization.map(Into::into),
            hash,
            certificate: self.certificate.clone(),
            verdict: Mutex::new(verdict),
        });
        *last = Some(credentials.clone());
        credentials
    }
}

impl Verdict {
    fn still_counts(&self) -> bool {
        match &self.identity {
            // Without a look at the clock for those that never expire.
            Ok(identity) => identity.expires.is_none() || !identity.is_expired(unix_time()),
            Err(_) => (0..REFUSAL_SECONDS).contains(&(unix_time() - self.at)),
        }
    }
}

impl Credentials {
    /// The verdict of the newest policy, now.
    pub fn verdict(&self) -> Verdict {
        self.ask(Clone::clone)
    }

    /// Asks about the verdict of the newest policy, without a copy of it. `question` must not ask another one.
    pub fn ask<T>(&self, question: impl FnOnce(&Verdict) -> T) -> T {
        let generation = self.access.generation();
        let mut verdict = self.verdict.lock();
        if verdict.generation != generation || !verdict.still_counts() {
            let (policy, at) = (self.access.policy(), unix_time());
            let identity = self.identify(&policy, at).map(Arc::new);
            *verdict = Verdict { generation, at, mode: policy.mode, identity };
        }
        question(&verdict)
    }

    fn identify(&self, policy: &super::Policy, now: i64) -> Result<Identity, Refusal> {
        let bearer = self.authorization.as_deref().map(|text| bearer(text).ok_or(Refusal::Invalid)).transpose()?;
        policy.identify(bearer, self.certificate.as_deref(), now)
    }
}

/// The token in an `authorization` header.
fn bearer(authorization: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty()).then_some(token)
}

/// Without what they are.
impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_follows_its_scheme() {
        assert_eq!(bearer(b"Bearer abc"), Some("abc"));
        assert_eq!(bearer(b"bearer  abc "), Some("abc"));
        for other in [&b"abc"[..], b"Bearer", b"Bearer ", b"Basic abc", b"Bearer \xff", b""] {
            assert_eq!(bearer(other), None, "{other:?}");
        }
    }
}
