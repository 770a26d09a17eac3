//! Why a caller may not do what it asks for.

use std::fmt;

/// Why a caller may not do what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It shows no credentials.
    #[error("this server asks for credentials: send a bearer token, or show a client certificate that it knows")]
    CredentialsMissing,
    /// Its credentials are not valid here.
    #[error("the credentials are not valid on this server")]
    CredentialsInvalid,
    /// Its credentials were valid.
    #[error("the credentials have expired: get new ones")]
    CredentialsExpired,
    /// No rule permits it.
    #[error(transparent)]
    NotPermitted(Box<NotPermitted>),
}

/// What no rule permits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NotPermitted {
    /// Who the caller is.
    pub identity: String,
    /// What it may not do, as rules name it.
    pub verb: &'static str,
    /// On what.
    pub on: Forbidden,
}

/// On what something is not permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// A lock.
    Lock(String),
    /// All locks whose names begin so, of which it may have some.
    Prefix {
        /// The beginning.
        prefix: String,
        /// The locks that the caller may have, as rules name them, or the first of them.
        permitted: Vec<String>,
    },
    /// The server.
    Server,
}

impl fmt::Display for NotPermitted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, verb, on } = self;
        match on {
            Forbidden::Lock(name) => write!(out, "no rule permits {identity:?} to {verb} {name:?}"),
            Forbidden::Prefix { prefix, permitted } if permitted.is_empty() => {
                write!(out, "no rule permits {identity:?} to {verb} any lock, such as those that begin with {prefix:?}")
            }
            Forbidden::Prefix { prefix, permitted } => write!(
                out,
                "no rule permits {identity:?} to {verb} all locks that begin with {prefix:?}: ask for a prefix within {}",
                permitted.join(", ")
            ),
            Forbidden::Server => write!(out, "no rule permits {identity:?} to {verb}"),
        }
    }
}
