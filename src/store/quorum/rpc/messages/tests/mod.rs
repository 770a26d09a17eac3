//! Parcels and heartbeats: each field survives a round trip, no input makes the server panic, and the bytes do not
//! change unnoticed.

mod bytes;
mod packing;
mod refused;
mod values;

use super::*;
use crate::domain::{
    ids::{GrantId, LeaseId},
    mode::ModeName,
    outcome::{Grant, ReleaseOutcome},
    token::FencingToken,
};
use proptest::prelude::*;
use std::time::Duration;
use uuid::Uuid;
use values::{some_frame, some_heartbeat, some_server};

const ONE: ServerId = ServerId([1; 12]);

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number << 64 | number)
}

fn reply(outcome: Outcome) -> Frame {
    Frame::Reply {
        number: 1,
        now: StoreTime::from_micros(2),
        result: Ok(Done::Outcome { outcome, queue_position: 0, ahead: 0 }),
    }
}

fn released() -> Frame {
    reply(Outcome::Release(ReleaseOutcome::Released))
}

fn read_back(frame: Frame) -> Frame {
    let parcel = Parcel { from: ONE, frames: vec![frame] };
    Parcel::decode(&parcel.encode()).unwrap().frames.remove(0)
}

proptest! {
    #[test]
    fn each_field_of_a_frame_comes_back(from in some_server(), frame in some_frame()) {
        let parcel = Parcel { from, frames: vec![frame] };
        prop_assert_eq!(Parcel::decode(&parcel.encode()), Ok(parcel));
    }

    #[test]
    fn frames_come_back_in_order(from in some_server(), frames in prop::collection::vec(some_frame(), 0..6)) {
        let parcel = Parcel { from, frames };
        prop_assert_eq!(Parcel::decode(&parcel.encode()), Ok(parcel));
    }

    #[test]
    fn each_field_of_a_heartbeat_comes_back(heartbeat in some_heartbeat()) {
        prop_assert_eq!(Heartbeat::decode(&heartbeat.encode()), Ok(heartbeat));
    }
}

#[test]
fn a_lease_never_has_more_left_than_it_had() {
    let grant = |left| {
        let ids = (LeaseId(id(1)), GrantId(id(2)));
        let token = FencingToken::new(3).unwrap();
        AcquireOutcome::Granted(Grant {
            lease_id: ids.0,
            grant_id: ids.1,
            token,
            left,
            previous_end: None,
            slot: None,
            mode: ModeName::Exclusive,
        })
    };
    let almost = Duration::from_nanos(29_999_999_999);
    let sent = reply(Outcome::Acquire(grant(almost)));
    assert_eq!(read_back(sent), reply(Outcome::Acquire(grant(Duration::from_micros(29_999_999)))));
    let longest = reply(Outcome::Acquire(grant(Duration::MAX)));
    assert_eq!(read_back(longest), reply(Outcome::Acquire(grant(Duration::from_micros(u64::MAX)))));
}
