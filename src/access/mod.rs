//! Who may do what: the file of `--access`. It names identities (static tokens, issuers of JSON Web Tokens, names in
//! client certificates) and rules, each of which permits some identities some verbs on some locks. Rules only permit,
//! so their order does not matter, and what none permits is refused.
//!
//! Knows neither locks nor gRPC: `api` asks it about each operation.

mod certificate;
mod contents;
mod credentials;
mod error;
mod examine;
mod fetched;
mod file;
mod grants;
mod jwks;
mod jwt;
mod keys_at;
mod policy;
mod signature;
#[cfg(test)]
mod tests;
mod token;
mod verb;

pub use certificate::Certificate;
pub use credentials::{Connection, Credentials, Verdict};
pub use error::AccessError;
pub use examine::{Examined, Oddity, examine};
pub use file::Mode;
pub use grants::Grants;
pub use keys_at::KeysUrl;
pub use policy::{Identity, Permitting, Policy, Refusal};
pub use token::NewToken;
pub use verb::Verb;

use contents::Contents;
use fetched::Fetched;
use parking_lot::{Mutex, RwLock};
use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The policy of a server, which follows its file.
pub struct Access {
    path: PathBuf,
    policy: RwLock<Arc<Policy>>,
    /// The number of the policy, counted from 1.
    generation: AtomicU64,
    seen: Mutex<Seen>,
    fetched: Fetched,
    /// Of the hashes of credentials.
    seed: u64,
}

struct Seen {
    /// What the policy was made of.
    contents: Contents,
    /// What was refused at the last look.
    refused: Option<AccessError>,
}

/// What a look at the file found.
#[derive(Debug, PartialEq, Eq)]
pub enum Reload {
    /// Nothing that was not known.
    Unchanged,
    /// A new policy, which counts from now on.
    Loaded,
    /// A file that cannot be used. The old policy stays.
    Refused(AccessError),
}

/// Checks that a text can be the name of a token.
pub fn check_name(name: &str) -> Result<(), String> {
    file::Text::try_from(name.to_owned()).map(drop)
}

/// Reads and checks a file. Keys at URLs are not fetched.
pub fn load(path: &Path) -> Result<Policy, AccessError> {
    let (file, contents) = Contents::read(path, &Fetched::default())?;
    Policy::new(file, &contents)
}

impl Access {
    /// Reads and checks the file.
    pub fn load(path: PathBuf) -> Result<Self, AccessError> {
        let fetched = Fetched::default();
        let (file, contents) = Contents::read(&path, &fetched)?;
        let policy = Arc::new(Policy::new(file, &contents)?);
        Ok(Self {
            path,
            policy: RwLock::new(policy),
            generation: AtomicU64::new(1),
            seen: Mutex::new(Seen { contents, refused: None }),
            fetched,
            seed: RandomState::new().hash_one(()),
        })
    }

    /// Looks at the files again. Blocks while it reads them.
    pub fn reload(&self) -> Reload {
        let mut seen = self.seen.lock();
        let loaded = Contents::read(&self.path, &self.fetched).and_then(|(file, contents)| {
            if contents == seen.contents {
                return Ok(None);
            }
            Policy::new(file, &contents).map(|policy| Some((policy, contents)))
        });
        match loaded {
            Ok(None) => {
                seen.refused = None;
                Reload::Unchanged
            }
            Ok(Some((policy, contents))) => {
                *seen = Seen { contents, refused: None };
                *self.policy.write() = Arc::new(policy);
                // Only now: credentials that see the number read a policy that is at least as new.
                self.generation.fetch_add(1, Ordering::Release);
                Reload::Loaded
            }
            Err(error) if seen.refused.as_ref() == Some(&error) => Reload::Unchanged,
            Err(error) => {
                seen.refused = Some(error.clone());
                Reload::Refused(error)
            }
        }
    }

    /// The newest policy.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().clone()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// Without the policy, which has digests of tokens.
impl fmt::Debug for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Access").field(&self.path).finish()
    }
}
