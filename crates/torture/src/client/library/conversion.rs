//! Conversions by the library, which repeats a call until its outcome is known, or its time is over.

use crate::{
    client::{
        outcome::describe,
        work::{GrantRef, Role},
        worker::Worker,
    },
    clock,
};
use fencepost_client::{ConvertError, Lock, raw};
use fencepost_torture::history::{Convert, ConvertEnd, OPEN, Record};
use tokio::time::timeout;

pub(super) async fn convert_sometimes(worker: &mut Worker, lock: &mut Lock, grant_ref: &mut GrantRef) {
    let Some(conversion) = worker.choose_conversion(grant_ref.role == Role::Reader) else { return };
    let (invoke, client, shared) = (clock::now(), worker.caller.client, conversion.to_shared);
    let (name, token, end) = (grant_ref.lock.clone(), grant_ref.token, ConvertEnd::Unknown(OPEN.to_owned()));
    let mut record = Convert { client, lock: name, token, shared, invoke, ret: invoke, end };
    let id = worker.caller.journal.open(Record::Convert(record.clone()));
    if shared {
        grant_ref.role = Role::Reader;
    }
    // It has to know when the lease is over.
    let valid_for = lock.valid_for();
    let patience = conversion.drop_after.unwrap_or(valid_for).min(valid_for);
    let answer = timeout(patience, async {
        if shared { lock.downgrade().await.map(|()| true) } else { lock.try_upgrade().await }
    });
    let answer = answer.await;
    record.ret = clock::now();
    record.end = match answer {
        Ok(Ok(true)) => {
            (grant_ref.token, grant_ref.role) = (lock.token(), if shared { Role::Reader } else { Role::Writer });
            ConvertEnd::Converted(lock.token())
        }
        Ok(Ok(false)) => ConvertEnd::Contended,
        Ok(Err(ConvertError::Lost(lost))) => ConvertEnd::Gone(lost.to_string()),
        Ok(Err(ConvertError::Call(error))) if error.is_outcome_unknown() => {
            ConvertEnd::Unknown(describe(raw::status(&error)))
        }
        Ok(Err(error)) => ConvertEnd::Refused(error.to_string()),
        Err(_) => ConvertEnd::Unknown("dropped".to_owned()),
    };
    worker.caller.journal.close(id, Record::Convert(record));
}
