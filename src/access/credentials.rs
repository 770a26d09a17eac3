//! What a caller shows, and what the newest policy makes of it.
//!
//! A connection remembers the last credentials that it carried, and credentials remember the verdict on them. So a
//! signature is verified once for each connection and token, and once more after each change of the policy.

use super::{
    Access,
    account::{Allowance, Exceeded, InUse, Subject},
    certificate::Certificate,
    file::Mode,
    policy::{Identity, Refusal},
    quota::Limit,
};
use crate::clock::unix_time;
use parking_lot::Mutex;
use std::{fmt, net::IpAddr, sync::Arc};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What is before a token in an `authorization` header.
const SCHEME: &str = "Bearer";

/// A refusal is looked at again after so many seconds: a token may become valid, and a clock may be corrected.
const REFUSAL_SECONDS: i64 = 10;

/// What the callers on one connection show.
pub struct Connection {
    access: Arc<Access>,
    certificate: Option<Arc<Certificate>>,
    /// The network that it comes from.
    network: Option<IpAddr>,
    /// For whom it counts among the open connections: the caller of its latest call that a quota may refuse.
    counted: Arc<Mutex<Option<InUse>>>,
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
    network: Option<IpAddr>,
    counted: Arc<Mutex<Option<InUse>>>,
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
    /// How much of the server it may use, if that is limited.
    pub allowance: Option<Allowance>,
}

impl Connection {
    /// A connection from this network, whose client showed this certificate, as DER.
    pub fn new(access: Arc<Access>, network: Option<IpAddr>, certificate: Option<&[u8]>) -> Self {
        let certificate = certificate.and_then(Certificate::read).map(Arc::new);
        Self { access, certificate, network, counted: Arc::default(), last: Mutex::new(None) }
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
        let (mode, identity) = (Mode::Enforce, Err(Refusal::Missing));
        let verdict = Verdict { generation: 0, at: 0, mode, identity, allowance: None };
        let credentials = Arc::new(Credentials {
            access: self.access.clone(),
            authorization: authorization.map(Into::into),
            hash,
            certificate: self.certificate.clone(),
            network: self.network,
            counted: self.counted.clone(),
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
            let allowance = self.allowance(&policy, identity.as_deref());
            *verdict = Verdict { generation, at, mode: policy.mode, identity, allowance };
        }
        question(&verdict)
    }

    /// Counts the connection for its caller. It says what the quota of the caller does not allow.
    pub fn count_connection(&self, allowance: &Allowance) -> Option<Exceeded> {
        let mut counted = self.counted.lock();
        if counted.as_ref().is_some_and(|counted| counted.is_of(allowance)) {
            return None;
        }
        let (in_use, exceeded) = allowance.take(Limit::Connections);
        *counted = in_use;
        exceeded
    }

    fn allowance(&self, policy: &super::Policy, identity: Result<&Identity, &Refusal>) -> Option<Allowance> {
        let (subject, quota) = match identity {
            Ok(identity) => (Subject::Identity((*identity.name).into()), policy.quotas.of_identity(&identity.name)?),
            Err(_) => (Subject::Address(self.network?), policy.quotas.of_address()?),
        };
        let accounts = self.access.accounts.clone();
        Some(Allowance { account: accounts.of(subject), accounts, quota: quota.clone() })
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
