//! Keys of issuers that the server fetches from URLs.

use super::{Access, KeysUrl, jwt::Issuer};
use parking_lot::Mutex;
use std::collections::HashMap;

/// What was fetched from URLs: the last keys of each that could be used.
#[derive(Debug, Default)]
pub(super) struct Fetched(Mutex<HashMap<KeysUrl, Vec<u8>>>);

impl Fetched {
    pub(super) fn of(&self, url: &KeysUrl) -> Option<Vec<u8>> {
        self.0.lock().get(url).cloned()
    }

    /// Keeps these, and nothing of URLs that are not among `named`.
    pub(super) fn keep(&self, url: KeysUrl, keys: Vec<u8>, named: &[KeysUrl]) {
        let mut kept = self.0.lock();
        kept.insert(url, keys);
        kept.retain(|url, _| named.contains(url));
    }
}

impl Access {
    /// The URLs that the file names, and whether their keys are wanted at once: there are none yet, or a token names
    /// another one.
    pub fn keys_urls(&self) -> Vec<(KeysUrl, bool)> {
        let mut urls: Vec<(KeysUrl, bool)> = Vec::new();
        for issuer in self.policy().issuers() {
            let Some(url) = issuer.url() else { continue };
            match urls.iter_mut().find(|(known, _)| known == url) {
                Some((_, is_wanted)) => *is_wanted |= issuer.wants_keys(),
                None => urls.push((url.clone(), issuer.wants_keys())),
            }
        }
        urls
    }

    /// Whether there were ever keys at this URL.
    pub fn has_keys(&self, url: &KeysUrl) -> bool {
        self.fetched.of(url).is_some()
    }

    /// Takes keys from a URL, which count after the next [reload](Self::reload). If they cannot be used, the last ones
    /// stay; the error is the end of a sentence about the URL.
    pub fn offer_keys(&self, url: KeysUrl, keys: Vec<u8>) -> Result<(), String> {
        let policy = self.policy();
        let at_url = || policy.issuers().iter().filter(|issuer| issuer.url() == Some(&url));
        at_url().try_for_each(|issuer| issuer.check(&keys))?;
        at_url().for_each(Issuer::wants_no_keys);
        let named: Vec<KeysUrl> = policy.issuers().iter().filter_map(Issuer::url).cloned().collect();
        self.fetched.keep(url, keys, &named);
        Ok(())
    }
}
