//! The guard for PostgreSQL, with tokio-postgres.
//!
//! Under `REPEATABLE READ` and `SERIALIZABLE`, [`raise`] and the statements after it may fail with SQLSTATE 40001, and
//! two transactions that raise several fences in different orders with 40P01: run the whole transaction again.

use crate::{Grant, RaiseError};
use fencepost_client::facts::{GUARD_POSTGRES_CREATE, GUARD_POSTGRES_NEWEST, GUARD_POSTGRES_RAISE};
use tokio_postgres::{Error, GenericClient, Transaction, types::Type};

/// Creates the table `fencepost_fences` if it does not exist, in the first schema of the search path. All writers have
/// to use the same table, so do this once, where the other tables are created.
pub async fn create(client: &impl GenericClient) -> Result<(), Error> {
    client.batch_execute(GUARD_POSTGRES_CREATE).await
}

/// Raises the fence of a lock to the token of the holder. The row stays locked until the end of the transaction, so no
/// other holder writes before.
///
/// Call it first, before the transaction reads, and not in a savepoint that may be rolled back alone. After an error,
/// or if the future was dropped, roll the transaction back.
pub async fn raise<'a>(transaction: &Transaction<'_>, grant: impl Into<Grant<'a>>) -> Result<(), RaiseError<Error>> {
    let grant = grant.into();
    let token = grant.stored_token()?;
    // Sent with their types, so that the statements need not be prepared: one round trip, also through a pooler.
    let name = (&grant.lock_name as &(dyn tokio_postgres::types::ToSql + Sync), Type::VARCHAR);
    let parameters = [name.clone(), (&token, Type::INT8), (&grant.grant_id, Type::VARCHAR)];
    let raised = transaction.query_typed(GUARD_POSTGRES_RAISE, &parameters).await.map_err(RaiseError::Store)?;
    if !raised.is_empty() {
        return Ok(());
    }
    let newest = transaction.query_typed_one(GUARD_POSTGRES_NEWEST, &[name]).await.map_err(RaiseError::Store)?;
    Err(grant.stale(newest.get(0)).into())
}
