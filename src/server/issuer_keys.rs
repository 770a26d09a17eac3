//! The keys of issuers that the access file names by URL: fetched at the start, once an hour, and when a token names a
//! key that is not among them.

use super::{fetch::fetch, tls::RELOAD_PERIOD};
use crate::{
    access::{Access, KeysUrl},
    telemetry::metrics::{AccessMetrics, AccessReload},
};
use futures_util::future::join_all;
use std::{collections::HashMap, convert::Infallible, future::pending, sync::Arc, time::Duration};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

/// How often keys are fetched without a reason.
const REFRESH_PERIOD: Duration = Duration::from_secs(60 * 60);
/// The shortest time between two fetches from a URL: whoever invents names of keys causes no more.
const FETCH_PAUSE: Duration = Duration::from_secs(30);

/// Follows the URLs of keys of a server.
pub(super) struct IssuerKeys {
    access: Option<Arc<Access>>,
    metrics: Arc<AccessMetrics>,
    /// When each URL was asked last.
    asked: HashMap<KeysUrl, Instant>,
}

impl IssuerKeys {
    /// Fetches all keys a first time. The server starts also without them, and refuses the tokens of their issuers
    /// until it has them.
    pub(super) async fn start(access: Option<Arc<Access>>, metrics: Arc<AccessMetrics>) -> Self {
        let mut keys = Self { access, metrics, asked: HashMap::new() };
        if let Some(access) = keys.access.clone() {
            keys.fetch_due(&access).await;
            // Nothing of it is logged: the file was read a moment ago.
            let _ = spawn_blocking(move || access.reload()).await;
        }
        keys
    }

    /// Fetches what is due, from now on. The next look at the access file uses it.
    pub(super) async fn follow(mut self) -> Infallible {
        let Some(access) = self.access.clone() else { return pending().await };
        loop {
            sleep(RELOAD_PERIOD).await;
            self.fetch_due(&access).await;
        }
    }

    async fn fetch_due(&mut self, access: &Arc<Access>) {
        let due = self.due(access.keys_urls(), Instant::now());
        let fetched = join_all(due.iter().map(fetch)).await;
        for (url, keys) in due.into_iter().zip(fetched) {
            self.take(access, url, keys);
        }
    }

    /// Which of these URLs are to be asked `now`: those that were not for a while, or for a moment if their keys are
    /// wanted.
    fn due(&mut self, named: Vec<(KeysUrl, bool)>, now: Instant) -> Vec<KeysUrl> {
        self.asked.retain(|url, _| named.iter().any(|(named, _)| named == url));
        let due = named.into_iter().filter(|(url, is_wanted)| {
            let pause = if *is_wanted { FETCH_PAUSE } else { REFRESH_PERIOD };
            self.asked.get(url).is_none_or(|asked| now.duration_since(*asked) >= pause)
        });
        let due: Vec<KeysUrl> = due.map(|(url, _)| url).collect();
        self.asked.extend(due.iter().map(|url| (url.clone(), now)));
        due
    }

    fn take(&self, access: &Access, url: KeysUrl, keys: Result<Vec<u8>, String>) {
        let (named, has_keys) = (url.to_string(), access.has_keys(&url));
        if let Err(error) = keys.and_then(|keys| access.offer_keys(url, keys)) {
            self.metrics.reloads.of(AccessReload::Failed).inc();
            if has_keys {
                tracing::error!(url = named, error, "cannot use the keys of an issuer; keeping the last ones");
            } else {
                tracing::error!(url = named, error, "no keys of an issuer yet: its tokens are refused");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_asked_once_an_hour_and_for_wanted_keys_after_a_pause() {
        let mut keys = IssuerKeys { access: None, metrics: Arc::default(), asked: HashMap::new() };
        let url = |text: &str| KeysUrl::try_from(format!("https://{text}")).unwrap();
        let (a, b, start) = (url("a"), url("b"), Instant::now());
        let mut due = |a_wanted, seconds| {
            let due = keys.due(vec![(a.clone(), a_wanted), (b.clone(), false)], start + Duration::from_secs(seconds));
            due.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(due(true, 0), ["https://a/", "https://b/"]);
        assert_eq!(due(true, 29), [""; 0]);
        assert_eq!(due(true, 30), ["https://a/"]);
        assert_eq!(due(false, 3_599), [""; 0]);
        assert_eq!(due(false, 3_600), ["https://b/"]);
        assert_eq!(due(false, 3_630), ["https://a/"]);
        assert_eq!(keys.due(vec![(a.clone(), false)], start), []);
        assert_eq!(keys.asked.len(), 1, "a URL that the file does not name any more is forgotten");
    }
}
