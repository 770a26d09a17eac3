//! The guard for SQLite 3.35 and later, with rusqlite.

use crate::{Grant, RaiseError};
use fencepost_client::facts::{
    GUARD_SQLITE_ADD_SHARED, GUARD_SQLITE_CHECK_SHARED, GUARD_SQLITE_CREATE, GUARD_SQLITE_HAS_SHARED,
    GUARD_SQLITE_NEWEST, GUARD_SQLITE_RAISE, GUARD_SQLITE_RAISE_SHARED,
};
use rusqlite::{Connection, Error, OptionalExtension, Params, Transaction, TransactionBehavior, params};

/// Creates the table `fencepost_fences` if it does not exist, and adds what one of an earlier version lacks.
pub fn create(connection: &Connection) -> Result<(), Error> {
    if is_current(connection)? {
        return Ok(());
    }
    connection.execute_batch(GUARD_SQLITE_CREATE)?;
    if is_current(connection)? {
        return Ok(());
    }
    let added = connection.execute_batch(GUARD_SQLITE_ADD_SHARED);
    // Another process may have been faster.
    if added.is_err() && is_current(connection)? { Ok(()) } else { added }
}

fn is_current(connection: &Connection) -> Result<bool, Error> {
    connection.query_row(GUARD_SQLITE_HAS_SHARED, [], |row| Ok(row.get::<_, i64>(0)? > 0))
}

/// Raises the fence of a lock to the token of the holder.
///
/// Call it first, before the transaction reads, in a transaction that begins as
/// [`Immediate`](rusqlite::TransactionBehavior::Immediate). After an error roll the transaction back, as dropping it
/// does.
pub fn raise<'a>(transaction: &Transaction<'_>, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    let fence = grant.fence_name()?;
    let parameters = params![fence, grant.stored_token()?, grant.grant_id];
    let raised = transaction.query_row(GUARD_SQLITE_RAISE, parameters, |row| row.get::<_, i64>(0)).optional();
    if raised.map_err(RaiseError::Store)?.is_some() {
        return Ok(());
    }
    let newest = transaction.query_row(GUARD_SQLITE_NEWEST, [fence], |row| row.get(0));
    Err(grant.stale(newest.map_err(RaiseError::Store)?).into())
}

/// Raises the token of a shared lock, in a transaction of its own. Call it once after the grant.
pub fn raise_shared<'a>(connection: &mut Connection, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    grant.check_reader()?;
    let parameters = params![grant.lock_name, grant.stored_token()?, grant.grant_id];
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(RaiseError::Store)?;
    pass(&transaction, GUARD_SQLITE_RAISE_SHARED, parameters, grant)?;
    transaction.commit().map_err(RaiseError::Store)
}

/// Checks the token of a shared lock. Call it first in each transaction that works under the lock. If the transaction
/// writes, begin it as [`Immediate`](TransactionBehavior::Immediate). After an error roll it back, as dropping it does.
pub fn check_shared<'a>(transaction: &Transaction<'_>, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    grant.check_reader()?;
    let token = grant.stored_token()?;
    // The token comes as often as it is compared.
    let parameters = params![grant.lock_name, token, token, token, grant.grant_id];
    pass(transaction, GUARD_SQLITE_CHECK_SHARED, parameters, grant)
}

/// Runs a statement that returns a row, unless the store refuses the reader.
fn pass(
    transaction: &Transaction<'_>,
    text: &str,
    parameters: impl Params,
    grant: Grant<'_>,
) -> Result<(), RaiseError<Error>> {
    let passed = transaction.query_row(text, parameters, |row| row.get::<_, i64>(0)).optional();
    if passed.map_err(RaiseError::Store)?.is_some() {
        return Ok(());
    }
    let newest = transaction.query_row(GUARD_SQLITE_NEWEST, [grant.lock_name], |row| row.get(0)).optional();
    Err(grant.refused(newest.map_err(RaiseError::Store)?))
}
