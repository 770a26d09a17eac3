//! What a request id is bound to.

use crate::domain::{
    lease::{Delays, Extra},
    mode::{Mode, PermitLimit, Permits},
    name::{Holder, Metadata},
};
use smallvec::SmallVec;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// What a request asks for, without its texts.
pub(super) struct Asks<'a> {
    pub(super) ttl: Duration,
    pub(super) max_hold: Option<Duration>,
    /// But for the identity: a retry may come with renewed credentials.
    pub(super) extra: &'a Extra,
    pub(super) mode: &'a Mode,
}

/// A hash of the parameters that a request id is bound to. It is stored, so it must be the same in every server and
/// every version. A request without what came later (`max_hold`, delays, a mode, an owner, `max_waiters`,
/// `tell_when_wanted`) has the hash that servers gave that did not know it.
pub(super) fn fingerprint(asks: &Asks<'_>, holder: &Holder, metadata: &Metadata, min_token: u64) -> u64 {
    let Asks { ttl, max_hold, extra, mode } = asks;
    let Extra { delays, owner, identity: _, waiters_max, tell_when_wanted, description: _ } = extra;
    // Most requests fit in place. The state of a streaming hash would be four times as large.
    let mut text = SmallVec::<[u8; 128]>::new();
    let mut part = |bytes: &[u8]| {
        // The length first, so that no two lists of parts read the same.
        text.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        text.extend_from_slice(bytes);
    };
    // In front, and not of the length of a TTL: so no list without them reads the same.
    match mode {
        Mode::Exclusive => {}
        Mode::Shared => part(b"shared"),
        Mode::Semaphore(permits) => {
            let Permits { count, limit: PermitLimit { permits, version }, slot: _ } = **permits;
            let numbers = [&count.to_le_bytes()[..], &permits.to_le_bytes(), &version.to_le_bytes()].concat();
            part(&[&b"semaphore"[..], &numbers].concat());
        }
    }
    if let Some(Delays { min_hold, lock_delay }) = delays {
        part(&[b"delays", &min_hold.as_nanos().to_le_bytes()[..], &lock_delay.as_nanos().to_le_bytes()[..]].concat());
    }
    if !owner.is_empty() {
        part(&[b"owner", owner.as_str().as_bytes()].concat());
    }
    if (*waiters_max, *tell_when_wanted) != (0, false) {
        part(&[&b"waiting"[..], &waiters_max.to_le_bytes(), &[u8::from(*tell_when_wanted)]].concat());
    }
    if let Some(max_hold) = max_hold {
        part(&[b"max_hold", &max_hold.as_nanos().to_le_bytes()[..]].concat());
    }
    part(&ttl.as_nanos().to_le_bytes());
    part(&min_token.to_le_bytes());
    part(holder.as_str().as_bytes());
    for (key, value) in metadata.pairs() {
        part(key.as_bytes());
        part(value.as_bytes());
    }
    xxh3_64(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::name::{Identity, Owner};
    use std::collections::HashSet;
    use xxhash_rust::xxh3::Xxh3;

    /// Of a request with a `max_hold` of a minute.
    const BOUNDED: u64 = 9_374_983_619_356_583_991;

    /// Of a request for a shared lock.
    const SHARED: u64 = 10_307_304_159_129_647_806;

    /// Of a request with a `min_hold` of a minute.
    const DELAYED: u64 = 10_734_010_614_936_166_263;

    /// Of requests with the owner `a`, with a `max_waiters` of 1, and with `tell_when_wanted`.
    const ASKING: [u64; 3] = [4_447_417_619_983_248_328, 12_987_288_846_490_463_549, 10_001_477_904_379_813_283];

    /// The fingerprint is stored, and servers of other versions compare it: it must never change, whatever the length.
    #[test]
    fn a_fingerprint_is_the_hash_of_its_parts_in_order() {
        for bytes in [0, 1, 40, 41, 128, 200, 241, 4_000] {
            let pairs = [("key".to_owned(), "v".repeat(bytes))];
            let (holder, metadata) = (Holder::new("h".into()).unwrap(), Metadata::new(pairs).unwrap());
            let mut parts = Xxh3::new();
            let (ttl, value) = (30_000_000_000_u128.to_le_bytes(), "v".repeat(bytes));
            for part in [&ttl[..], &7_u64.to_le_bytes(), b"h", b"key", value.as_bytes()] {
                parts.update(&(part.len() as u64).to_le_bytes());
                parts.update(part);
            }
            let ttl = Duration::from_secs(30);
            let plain = Asks { ttl, max_hold: None, extra: &Extra::default(), mode: &Mode::Exclusive };
            assert_eq!(fingerprint(&plain, &holder, &metadata, 7), parts.digest(), "{bytes}");
        }
        let (holder, metadata) = (Holder::new("host-17".into()).unwrap(), Metadata::default());
        let secs = Duration::from_secs;
        let of_asks = |asks: &Asks<'_>| fingerprint(asks, &holder, &metadata, 0);
        let none = Extra::default();
        let plain = || Asks { ttl: secs(30), max_hold: None, extra: &none, mode: &Mode::Exclusive };
        let of = |max_hold, delays| {
            let extra = Extra { delays, ..Extra::default() };
            of_asks(&Asks { max_hold, extra: &extra, ..plain() })
        };
        assert_eq!(of(None, None), 18_177_338_775_173_038_911);
        let bounded = [30, 60].map(|seconds| of(Some(secs(seconds)), None));
        assert!(bounded[0] != bounded[1] && !bounded.contains(&of(None, None)), "a request id is bound to max_hold");
        assert_eq!(bounded[1], BOUNDED);
        let delays = [(60, 0), (0, 60), (30, 0)]
            .map(|(min_hold, lock_delay)| of(None, Delays::new(secs(min_hold), secs(lock_delay))));
        let all: HashSet<_> = delays.iter().chain(&bounded).copied().chain([of(None, None)]).collect();
        assert_eq!(all.len(), 6, "a request id is bound to min_hold and lock_delay");
        let shared = of_asks(&Asks { mode: &Mode::Shared, ..plain() });
        assert!(!all.contains(&shared), "a request id is bound to the mode");
        assert_eq!(shared, SHARED);
        let of_extra = |extra: Extra| of_asks(&Asks { extra: &extra, ..plain() });
        let owner = |text: &str| Owner::new(text.to_owned()).unwrap();
        let asked = [
            Extra { owner: owner("a"), ..Extra::default() },
            Extra { owner: owner("b"), ..Extra::default() },
            Extra { waiters_max: 1, ..Extra::default() },
            Extra { tell_when_wanted: true, ..Extra::default() },
        ];
        let asked = asked.map(of_extra);
        assert_eq!([asked[0], asked[2], asked[3]], ASKING);
        let asked: HashSet<_> = asked.into_iter().chain(all).collect();
        assert_eq!(asked.len(), 10, "a request id is bound to the owner, max_waiters and tell_when_wanted");
        let identity = Some(Identity::new("ci".into()));
        assert_eq!(of_extra(Extra { identity, ..Extra::default() }), of(None, None), "credentials may be renewed");
        assert_eq!(delays[0], DELAYED);
    }
}
