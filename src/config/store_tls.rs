//! TLS files for the store, and their dependencies on each other.

use super::StoreUrl;
use std::path::PathBuf;

/// The PEM files for a `rediss://` store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreTls {
    /// The authorities that may issue the certificate of Redis, in place of the machine's roots.
    pub ca: Option<PathBuf>,
    /// The client certificate.
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate.
    pub key: Option<PathBuf>,
}

impl StoreTls {
    /// The key of an option that cannot be used as it is, and the reason.
    pub(super) fn problem(&self, store: &StoreUrl) -> Option<(&'static str, &'static str)> {
        let first = [("store_ca", &self.ca), ("store_cert", &self.cert), ("store_key", &self.key)];
        let (key, _) = first.into_iter().find(|(_, file)| file.is_some())?;
        if !store.urls().iter().any(|url| url.starts_with("rediss")) {
            return Some((key, "needs a store with TLS: --store rediss://…"));
        }
        match (&self.cert, &self.key) {
            (Some(_), None) => {
                Some(("store_cert", "needs the private key of the certificate as well: --store-key FILE"))
            }
            (None, Some(_)) => Some(("store_key", "needs the certificate of the key as well: --store-cert FILE")),
            _ => None,
        }
    }
}
