//! Records of shared leases with delays, and of ghosts.

use super::*;
use crate::domain::{
    mode::{PermitLimit, Permits},
    rules::Ghost,
};
use std::num::NonZeroU32;

/// A server of layout 2 would take a ghost for a lease that lasts, and forget the delays of a lease.
#[test]
fn a_shared_lease_with_delays_and_a_ghost_have_layout_3() {
    let name = LockName::new("orders/42").unwrap();
    let key = Key::of_share(&name, lease().grant_id);
    let shared = |delays| {
        let terms = Terms { extra: Extra::of_delays(delays), mode: Mode::Shared, ..lease().terms };
        share::encode(&Lease { terms, ..lease() }, lease().expires_at)
    };
    assert_eq!(shared(None)[0], LAYOUT_OF_MODES, "an old server reads it");
    assert_eq!(shared(Delays::new(Duration::from_secs(1), Duration::ZERO))[0], LAYOUT_OF_GHOSTS);
    let limit = PermitLimit { permits: 3, version: 1 };
    let permits = Permits { slot: NonZeroU32::new(2), ..Permits::new(1, limit).unwrap() };
    for mode in [Mode::Shared, Mode::Semaphore(Box::new(permits))] {
        let delay = delay().handing_on(LeaseEnd::Revoked);
        let ghost =
            |token| Ghost { delay: Delay { token, ..delay.clone() }, grant_id: lease().grant_id, mode: mode.clone() };
        let record = share::encode_ghost(&ghost(token(5)));
        assert_eq!(record[0], LAYOUT_OF_GHOSTS);
        assert_eq!(share::decode(&record, lease().grant_id), Ok(Share::Ghost(ghost(token(5)))));
        assert!(share::decode(&record, GrantId(id(99))).is_err(), "of another key");
        let same = with_tokens(&key, &record, Some).unwrap();
        assert_eq!(same.as_ref(), Some(&record), "the message writes the same");
        let raised = with_tokens(&key, &record, |token| Some(token + 1)).unwrap().unwrap();
        let Share::Ghost(raised) = share::decode(&raised, lease().grant_id).unwrap() else { panic!("no ghost") };
        assert_eq!((raised.delay.token, raised.mode), (token(6), mode.clone()));
        assert_eq!(raised.delay.lease().unwrap().token, Some(token(6)), "as for who asks about it");
        assert_eq!(with_tokens(&key, &record, |_| None).unwrap(), None);
    }
}
