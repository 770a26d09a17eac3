//! The guard for MySQL and MariaDB, with mysql_async.
//!
//! Under `REPEATABLE READ`, the default, a transaction goes on reading what its first plain read found. One that reads
//! before it raises the fence, or begins with a consistent snapshot, misses the last writes of the earlier holder, and
//! no error says so. A deadlock of transactions that raise several fences in different orders is error 1213: run the
//! whole transaction again.

use crate::{Grant, RaiseError};
use fencepost_client::facts::{
    GUARD_MYSQL_ADD_SHARED, GUARD_MYSQL_CHECK_SHARED, GUARD_MYSQL_CREATE, GUARD_MYSQL_HAS_SHARED, GUARD_MYSQL_NEWEST,
    GUARD_MYSQL_NEWEST_SHARED, GUARD_MYSQL_RAISE, GUARD_MYSQL_RAISE_SHARED,
};
use mysql_async::{Conn, DriverError, Error, FromRowError, Row, Transaction, TxOpts, from_row_opt, prelude::Queryable};

/// Creates the table `fencepost_fences` in the connection's database if it does not exist, and adds what one of an
/// earlier version lacks. Like each `CREATE TABLE` it commits a transaction under way, so do this once, where the other
/// tables are created.
pub async fn create(connection: &mut impl Queryable) -> Result<(), Error> {
    if is_current(connection).await? {
        return Ok(());
    }
    connection.query_drop(GUARD_MYSQL_CREATE).await?;
    if is_current(connection).await? {
        return Ok(());
    }
    let added = connection.query_drop(GUARD_MYSQL_ADD_SHARED).await;
    // Another process may have been faster.
    if added.is_err() && is_current(connection).await? { Ok(()) } else { added }
}

async fn is_current(connection: &mut impl Queryable) -> Result<bool, Error> {
    let found: Option<i64> = connection.query_first(GUARD_MYSQL_HAS_SHARED).await?;
    Ok(found.is_some_and(|columns| columns > 0))
}

/// Raises the fence of a lock to the token of the holder. The row stays locked until the end of the transaction, so no
/// other holder writes before.
///
/// Call it first, before the transaction reads, and not in a savepoint that may be rolled back alone. After an error,
/// or if the future was dropped, roll the transaction back.
pub async fn raise<'a>(
    transaction: &mut Transaction<'_>,
    grant: impl Into<Grant<'a>>,
) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    let (token, name) = (grant.stored_token()?, grant.fence_name()?);
    let raise = transaction.exec_drop(GUARD_MYSQL_RAISE, (&*name, token, grant.grant_id));
    raise.await.map_err(RaiseError::Store)?;
    let row = transaction.exec_first(GUARD_MYSQL_NEWEST, (&*name,)).await.map_err(RaiseError::Store)?;
    let (newest, grant_id) = fence(row).map_err(RaiseError::Store)?;
    if newest == token && grant_id.as_deref() == Some(grant.grant_id) {
        Ok(())
    } else {
        Err(grant.stale(newest).into())
    }
}

/// Raises the token of a shared lock, in a transaction of its own: within that of the work, readers would wait for one
/// another. Call it once after the grant. It waits for the transactions that work under this lock at that time.
///
/// A deadlock is error 1213: call it again.
pub async fn raise_shared<'a>(connection: &mut Conn, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    grant.check_reader()?;
    let token = grant.stored_token()?;
    let mut transaction = connection.start_transaction(TxOpts::default()).await.map_err(RaiseError::Store)?;
    let raise = transaction.exec_drop(GUARD_MYSQL_RAISE_SHARED, (grant.lock_name, token, grant.grant_id));
    raise.await.map_err(RaiseError::Store)?;
    // The number of affected rows does not tell.
    check(&mut transaction, grant).await?;
    transaction.commit().await.map_err(RaiseError::Store)
}

/// Checks the token of a shared lock. Call it first in each transaction that works under the lock. Until the end of the
/// transaction writers wait, and other readers do not.
///
/// After an error, or if the future was dropped, roll the transaction back.
pub async fn check_shared<'a>(
    transaction: &mut Transaction<'_>,
    grant: impl Into<Grant<'a>>,
) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    grant.check_reader()?;
    check(transaction, grant).await
}

async fn check(transaction: &mut Transaction<'_>, grant: Grant<'_>) -> Result<(), RaiseError<Error>> {
    let token = grant.stored_token()?;
    // The token comes as often as it is compared.
    let parameters = (grant.lock_name, token, token, token, grant.grant_id);
    let passed: Option<i64> =
        transaction.exec_first(GUARD_MYSQL_CHECK_SHARED, parameters).await.map_err(RaiseError::Store)?;
    if passed.is_some() {
        return Ok(());
    }
    let newest = transaction.exec_first(GUARD_MYSQL_NEWEST_SHARED, (grant.lock_name,)).await;
    Err(grant.refused(newest.map_err(RaiseError::Store)?))
}

/// Token and grant id of a row; the grant id is NULL if the token is that of a reader. Fails if another definition of
/// the table, or a trigger, has made it something else.
fn fence(row: Option<Row>) -> Result<(i64, Option<String>), Error> {
    let row = row.ok_or_else(|| Error::Other("fencepost_fences has no row of the lock after its INSERT".into()))?;
    from_row_opt(row).map_err(|FromRowError(row)| DriverError::FromRow { row }.into())
}
