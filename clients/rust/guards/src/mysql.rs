//! The guard for MySQL and MariaDB, with mysql_async.
//!
//! Under `REPEATABLE READ`, the default, a transaction goes on reading what its first plain read found. One that reads
//! before it raises the fence, or begins with a consistent snapshot, misses the last writes of the earlier holder, and
//! no error says so. A deadlock of transactions that raise several fences in different orders is error 1213: run the
//! whole transaction again.

use crate::{Grant, RaiseError};
use fencepost_client::facts::{GUARD_MYSQL_CREATE, GUARD_MYSQL_NEWEST, GUARD_MYSQL_RAISE};
use mysql_async::{DriverError, Error, FromRowError, Row, Transaction, from_row_opt, prelude::Queryable};

/// Creates the table `fencepost_fences` in the connection's database if it does not exist. Like each `CREATE TABLE` it
/// commits a transaction under way, so do this once, where the other tables are created.
pub async fn create(connection: &mut impl Queryable) -> Result<(), Error> {
    connection.query_drop(GUARD_MYSQL_CREATE).await
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
    let token = grant.stored_token()?;
    let raise = transaction.exec_drop(GUARD_MYSQL_RAISE, (grant.lock_name, token, grant.grant_id));
    raise.await.map_err(RaiseError::Store)?;
    let row = transaction.exec_first(GUARD_MYSQL_NEWEST, (grant.lock_name,)).await.map_err(RaiseError::Store)?;
    let (newest, grant_id) = fence(row).map_err(RaiseError::Store)?;
    if newest == token && grant_id == grant.grant_id { Ok(()) } else { Err(grant.stale(newest).into()) }
}

/// Token and grant id of a row. Fails if another definition of the table, or a trigger, has made it something else.
fn fence(row: Option<Row>) -> Result<(i64, String), Error> {
    let row = row.ok_or_else(|| Error::Other("fencepost_fences has no row of the lock after its INSERT".into()))?;
    from_row_opt(row).map_err(|FromRowError(row)| DriverError::FromRow { row }.into())
}
