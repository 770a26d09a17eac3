//! The guard for PostgreSQL, with tokio-postgres.
//!
//! Under `REPEATABLE READ` and `SERIALIZABLE`, [`raise`] and the statements after it may fail with SQLSTATE 40001, and
//! two transactions that raise several fences in different orders with 40P01: run the whole transaction again.

use crate::{Grant, RaiseError};
use fencepost_client::facts::{
    GUARD_POSTGRES_ADD_SHARED, GUARD_POSTGRES_CHECK_SHARED, GUARD_POSTGRES_CREATE, GUARD_POSTGRES_HAS_SHARED,
    GUARD_POSTGRES_NEWEST, GUARD_POSTGRES_RAISE, GUARD_POSTGRES_RAISE_SHARED,
};
use tokio_postgres::{Client, Error, GenericClient, Transaction, types::ToSql, types::Type};

/// Creates the table `fencepost_fences` if it does not exist, in the first schema of the search path, and adds what one
/// of an earlier version lacks. All writers have to use the same table, so do this once, where the other tables are
/// created.
pub async fn create(client: &impl GenericClient) -> Result<(), Error> {
    if is_current(client).await? {
        return Ok(());
    }
    let mut created = client.batch_execute(GUARD_POSTGRES_CREATE).await;
    if created.is_ok() {
        created = client.batch_execute(GUARD_POSTGRES_ADD_SHARED).await;
    }
    // Of several processes that do so at once, PostgreSQL may refuse all but one.
    if created.is_err() && is_current(client).await.unwrap_or(false) { Ok(()) } else { created }
}

async fn is_current(client: &impl GenericClient) -> Result<bool, Error> {
    let rows = client.query_typed(GUARD_POSTGRES_HAS_SHARED, &[]).await?;
    Ok(rows.iter().any(|row| row.get::<_, i64>(0) > 0))
}

/// Raises the fence of a lock to the token of the holder. The row stays locked until the end of the transaction, so no
/// other holder writes before.
///
/// Call it first, before the transaction reads, and not in a savepoint that may be rolled back alone. After an error,
/// or if the future was dropped, roll the transaction back.
pub async fn raise<'a>(transaction: &Transaction<'_>, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    let (token, fence) = (grant.stored_token()?, grant.fence_name()?);
    // Sent with their types, so that the statements need not be prepared: one round trip, also through a pooler.
    let name = (&fence as &(dyn ToSql + Sync), Type::VARCHAR);
    let parameters = [name.clone(), (&token, Type::INT8), (&grant.grant_id, Type::VARCHAR)];
    let raised = transaction.query_typed(GUARD_POSTGRES_RAISE, &parameters).await.map_err(RaiseError::Store)?;
    if !raised.is_empty() {
        return Ok(());
    }
    let newest = transaction.query_typed_one(GUARD_POSTGRES_NEWEST, &[name]).await.map_err(RaiseError::Store)?;
    Err(grant.stale(newest.get(0)).into())
}

/// Raises the token of a shared lock, in a transaction of its own: within that of the work, readers would wait for one
/// another. Call it once after the grant. It waits for the transactions that work under this lock at that time.
///
/// If the default of the connection is `REPEATABLE READ` or `SERIALIZABLE`, it may fail with 40001: call it again.
pub async fn raise_shared<'a>(client: &Client, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    pass(client, GUARD_POSTGRES_RAISE_SHARED, grant.into()).await
}

/// Checks the token of a shared lock. Call it first in each transaction that works under the lock. Until the end of the
/// transaction writers wait, and other readers do not.
///
/// After an error, or if the future was dropped, roll the transaction back.
pub async fn check_shared<'a>(
    transaction: &Transaction<'_>,
    grant: impl Into<Grant<'a>>,
) -> Result<(), RaiseError<Error>> {
    pass(transaction, GUARD_POSTGRES_CHECK_SHARED, grant.into()).await
}

/// Runs a statement that returns a row, unless the store refuses the reader.
async fn pass(client: &impl GenericClient, text: &str, grant: Grant<'_>) -> Result<(), RaiseError<Error>> {
    grant.check_reader()?;
    let token = grant.stored_token()?;
    let name = (&grant.lock_name as &(dyn ToSql + Sync), Type::VARCHAR);
    let parameters = [name.clone(), (&token, Type::INT8), (&grant.grant_id, Type::VARCHAR)];
    if !client.query_typed(text, &parameters).await.map_err(RaiseError::Store)?.is_empty() {
        return Ok(());
    }
    let newest = client.query_typed(GUARD_POSTGRES_NEWEST, &[name]).await.map_err(RaiseError::Store)?;
    Err(grant.refused(newest.first().map(|row| row.get(0))))
}
