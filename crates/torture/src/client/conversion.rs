//! Conversions of a held lease: sometimes a writer becomes a reader, or a reader a writer. Some calls are dropped, some
//! are sent twice, and some ask for the mode that the lease has already.
//!
//! From a downgrade on, the holder only reads, whatever the outcome. It writes again when an upgrade is answered.

use super::{
    caller::{CALL_MAX, Caller},
    held_lease::HeldLease,
    outcome::{describe, is_unknown},
    work::GrantRef,
    worker::Worker,
};
use crate::{clock, journal};
use fencepost_proto::v1::{ConvertRequest, ConvertResponse, LockMode, convert_response::Outcome};
use fencepost_torture::history::{Convert, ConvertEnd, Lost, OPEN, Record};
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;

/// How often a step of a holder is followed by a conversion, in percent.
const CONVERSIONS: u64 = 20;

/// A conversion to make.
#[derive(Clone, Copy)]
pub(super) struct Conversion {
    pub(super) to_shared: bool,
    /// When to drop the call.
    pub(super) drop_after: Option<Duration>,
}

impl Worker {
    /// Whether to convert a lease now, and how.
    pub(super) fn choose_conversion(&mut self, reads_only: bool) -> Option<Conversion> {
        if !self.conversions.chance(CONVERSIONS) {
            return None;
        }
        // Mostly to the other mode.
        let to_shared = reads_only == self.conversions.chance(15);
        let drop_after = self.conversions.chance(15).then(|| self.conversions.millis(0, 4));
        Some(Conversion { to_shared, drop_after })
    }

    /// Returns the reference to the grant as it is after a conversion; `None` if there was none.
    pub(super) async fn convert_sometimes(&mut self, held: &HeldLease) -> Option<GrantRef> {
        if !held.is_convertible || !held.is_valid() {
            return None;
        }
        let conversion = self.choose_conversion(held.reads_only())?;
        let server = self.conversions.index(self.caller.servers());
        if conversion.to_shared {
            held.read_only();
        }
        if self.conversions.chance(10) {
            self.caller.journal.record(journal::instant_fault("request-duplicated", held.lease.lock_name.clone()));
            tokio::join!(
                self.caller.convert(held, conversion, server),
                self.caller.convert(held, conversion, server + 1)
            );
        } else {
            self.caller.convert(held, conversion, server).await;
        }
        Some(GrantRef::of(held))
    }
}

impl Caller {
    /// One transmission.
    async fn convert(&self, held: &HeldLease, conversion: Conversion, server: usize) {
        let Conversion { to_shared: shared, drop_after } = conversion;
        let (invoke, lease, token) = (clock::now(), &held.lease, held.token());
        let (client, lock, end) = (self.client, lease.lock_name.clone(), ConvertEnd::Unknown(OPEN.to_owned()));
        let mut record = Convert { client, lock, token, shared, invoke, ret: invoke, end };
        let id = self.journal.open(Record::Convert(record.clone()));
        let request = ConvertRequest {
            lock_name: lease.lock_name.clone(),
            lease_id: lease.lease_id.clone(),
            fencing_token: token,
            mode: if shared { LockMode::Shared } else { LockMode::Exclusive }.into(),
        };
        let mut service = self.service(server);
        let answer = timeout(drop_after.unwrap_or(CALL_MAX), service.convert(request)).await;
        let answer = answer.map(|answer| answer.map(tonic::Response::into_inner));
        record.ret = clock::now();
        record.end = answer.as_ref().map_or_else(|_| ConvertEnd::Unknown("no answer in time".to_owned()), convert_end);
        held.converted(shared, &record.end);
        if let (ConvertEnd::Gone(cause), Ok(Ok(answer))) = (&record.end, &answer) {
            let successor = (answer.successor_token != 0).then_some(answer.successor_token);
            let (lock, at, cause) = (record.lock.clone(), record.ret, cause.clone());
            held.lose(self, Lost { client, lock, token, at, cause, successor });
        }
        self.journal.close(id, Record::Convert(record));
    }
}

fn convert_end(answer: &Result<ConvertResponse, Status>) -> ConvertEnd {
    match answer {
        Ok(answer) => match answer.outcome() {
            Outcome::Converted => ConvertEnd::Converted(answer.fencing_token),
            Outcome::Contended => ConvertEnd::Contended,
            Outcome::Lost => ConvertEnd::Gone(super::caller::cause(answer.end())),
            Outcome::Unspecified => ConvertEnd::Refused("an outcome that is not specified".to_owned()),
        },
        Err(status) if is_unknown(status) => ConvertEnd::Unknown(describe(status)),
        Err(status) => ConvertEnd::Refused(describe(status)),
    }
}
