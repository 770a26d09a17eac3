//! The guard for SQLite 3.35 and later, with rusqlite.

use crate::{Grant, RaiseError};
use fencepost_client::facts::{GUARD_SQLITE_CREATE, GUARD_SQLITE_NEWEST, GUARD_SQLITE_RAISE};
use rusqlite::{Connection, Error, OptionalExtension, Transaction, params};

/// Creates the table `fencepost_fences` if it does not exist.
pub fn create(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(GUARD_SQLITE_CREATE)
}

/// Raises the fence of a lock to the token of the holder.
///
/// Call it first, before the transaction reads, in a transaction that begins as
/// [`Immediate`](rusqlite::TransactionBehavior::Immediate). After an error roll the transaction back, as dropping it
/// does.
pub fn raise<'a>(transaction: &Transaction<'_>, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    let parameters = params![grant.lock_name, grant.stored_token()?, grant.grant_id];
    let raised = transaction.query_row(GUARD_SQLITE_RAISE, parameters, |row| row.get::<_, i64>(0)).optional();
    if raised.map_err(RaiseError::Store)?.is_some() {
        return Ok(());
    }
    let newest = transaction.query_row(GUARD_SQLITE_NEWEST, [grant.lock_name], |row| row.get(0));
    Err(grant.stale(newest.map_err(RaiseError::Store)?).into())
}
