//! Random values of fields.

use crate::domain::{
    lease::{Delays, Extra, LeaseEnd, MaxHold, Terms},
    limits::{PERMITS_MAX, TOKEN_END},
    mode::{Mode, PermitLimit, Permits},
    name::{Holder, Identity, LockName, Metadata, Owner},
    time::StoreTime,
    token::FencingToken,
};
use proptest::{option, prelude::*};
use std::{num::NonZeroU32, time::Duration};
use uuid::Uuid;

pub(crate) fn some_id() -> impl Strategy<Value = Uuid> {
    prop_oneof![any::<u128>().prop_map(Uuid::from_u128), Just(Uuid::nil()), Just(Uuid::max())]
}

pub(crate) fn some_time() -> impl Strategy<Value = StoreTime> {
    any::<u64>().prop_map(StoreTime::from_micros)
}

/// In whole microseconds.
pub(crate) fn some_span() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_micros)
}

pub(crate) fn some_token() -> impl Strategy<Value = FencingToken> {
    (1..TOKEN_END).prop_map(|number| FencingToken::new(number).unwrap())
}

pub(crate) fn some_end() -> impl Strategy<Value = LeaseEnd> {
    prop_oneof![Just(LeaseEnd::Released), Just(LeaseEnd::Expired), Just(LeaseEnd::Revoked)]
}

pub(crate) fn some_lock_name() -> impl Strategy<Value = LockName> {
    "\\PC{1,30}".prop_filter_map("no name", |name| LockName::new(name).ok())
}

pub(crate) fn some_holder() -> impl Strategy<Value = Holder> {
    "\\PC{0,30}".prop_filter_map("no label", |label| Holder::new(label).ok())
}

pub(crate) fn some_metadata() -> impl Strategy<Value = Metadata> {
    prop::collection::vec((any::<String>(), any::<String>()), 0..6)
        .prop_filter_map("too long", |pairs| Metadata::new(pairs).ok())
}

pub(crate) fn some_terms() -> impl Strategy<Value = Terms> {
    let mode = prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared), some_permits().prop_map(Mode::Semaphore)];
    let asks = (option::of(some_span()), some_extra(), mode);
    (any::<u64>(), some_span(), some_holder(), some_metadata(), any::<u64>(), asks).prop_map(
        |(fingerprint, ttl, holder, metadata, min_token, (max_hold, extra, mode))| Terms {
            fingerprint,
            ttl,
            holder,
            metadata,
            min_token,
            max_hold: max_hold.and_then(MaxHold::new),
            extra,
            mode,
        },
    )
}

pub(crate) fn some_permits() -> impl Strategy<Value = Box<Permits>> {
    (1..=PERMITS_MAX, any::<u64>(), option::of(any::<NonZeroU32>())).prop_flat_map(|(permits, version, slot)| {
        let limit = PermitLimit { permits, version };
        (1..=permits).prop_map(move |count| Box::new(Permits { count, limit, slot }))
    })
}

fn some_delays() -> impl Strategy<Value = Option<Delays>> {
    option::of((some_span(), some_span()))
        .prop_map(|spans| spans.and_then(|(min_hold, lock_delay)| Delays::new(min_hold, lock_delay)))
}

fn some_extra() -> impl Strategy<Value = Option<Box<Extra>>> {
    let waiting = (any::<u32>(), any::<bool>());
    (some_delays(), some_owner(), option::of(some_identity()), waiting, any::<u64>()).prop_map(
        |(delays, owner, identity, (waiters_max, tell_when_wanted), description)| {
            Extra { delays, owner, identity, waiters_max, tell_when_wanted, description }.boxed()
        },
    )
}

pub(crate) fn some_owner() -> impl Strategy<Value = Owner> {
    "\\PC{0,20}".prop_filter_map("no label", |label| Owner::new(label).ok())
}

pub(crate) fn some_identity() -> impl Strategy<Value = Identity> {
    "\\PC{1,30}".prop_map(|name| Identity::new(name.into()))
}
