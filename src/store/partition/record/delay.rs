//! The delay after a lease, in the record of a lock.

use crate::{
    domain::{
        ended::{Ended, EndedLease, RequestEnd},
        ids::{LeaseId, RequestId},
        lease::Delays,
        name::Holder,
        rules::Delay,
        time::{StoreTime, micros},
    },
    store::fields::{self, FieldError, Id},
};
use std::time::Duration;

/// The delay after a lease. Times and spans are in microseconds.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct DelayMessage {
    #[prost(message, optional, tag = "1")]
    request: Option<Id>,
    #[prost(fixed64, tag = "2")]
    fingerprint: u64,
    #[prost(message, optional, tag = "3")]
    lease_id: Option<Id>,
    #[prost(uint32, tag = "4")]
    end: u32,
    #[prost(uint64, tag = "5")]
    at: u64,
    #[prost(uint64, tag = "6")]
    pub(super) token: u64,
    #[prost(string, tag = "7")]
    holder: String,
    #[prost(uint64, tag = "8")]
    min_hold: u64,
    #[prost(uint64, tag = "9")]
    lock_delay: u64,
    #[prost(uint64, tag = "10")]
    held_until: u64,
    #[prost(uint64, tag = "11")]
    delayed_until: u64,
}

pub(super) fn delay_message(delay: &Delay) -> DelayMessage {
    let Delay { ended, token, holder, delays: Delays { min_hold, lock_delay }, held_until, delayed_until } = delay;
    let Ended { request, fingerprint, end, at } = ended;
    let (lease_id, end) = match end {
        RequestEnd::Lease(EndedLease { lease_id, end, .. }) => (Id::of(lease_id.0), fields::end_number(*end)),
        // Only a lease leaves a delay.
        RequestEnd::TimedOut | RequestEnd::Abandoned | RequestEnd::Refused(_) => (None, 0),
    };
    DelayMessage {
        request: Id::of(request.0),
        fingerprint: *fingerprint,
        lease_id,
        end,
        at: at.as_micros(),
        token: token.get(),
        holder: holder.as_str().to_owned(),
        min_hold: micros(*min_hold),
        lock_delay: micros(*lock_delay),
        held_until: held_until.as_micros(),
        delayed_until: delayed_until.as_micros(),
    }
}

pub(super) fn read_delay(message: DelayMessage) -> Result<Delay, FieldError> {
    let end = fields::end_numbered(message.end).ok_or_else(|| FieldError::number("end", message.end))?;
    let lease_id = LeaseId(fields::id(message.lease_id, "lease id")?);
    let token = fields::token(message.token)?;
    Ok(Delay {
        ended: Ended {
            request: RequestId(fields::id(message.request, "request id")?),
            fingerprint: message.fingerprint,
            end: RequestEnd::Lease(EndedLease { lease_id, token: Some(token), end, handed_on: end }),
            at: StoreTime::from_micros(message.at),
        },
        token,
        holder: fields::checked("holder", Holder::new(message.holder))?,
        delays: Delays {
            min_hold: Duration::from_micros(message.min_hold),
            lock_delay: Duration::from_micros(message.lock_delay),
        },
        held_until: StoreTime::from_micros(message.held_until),
        delayed_until: StoreTime::from_micros(message.delayed_until),
    })
}
