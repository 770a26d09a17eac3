//! A store that checks fencing tokens: SQLite with one fence row per lock name.
//!
//! The row has the highest fencing token that the store has seen, and the grant of that token. Each write includes the
//! token of its holder. The store checks and raises the token in the same transaction as the write, so no other write
//! comes between. This needs no clock and no lock server. It relies only on tokens that rise with each grant.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params};
use std::{path::Path, time::Duration};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS fence (
    lock_name TEXT PRIMARY KEY,
    token     BIGINT NOT NULL,   -- the highest token seen
    grant_id  TEXT NOT NULL      -- the grant with that token
);
CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, body TEXT NOT NULL);
";

/// Changes one row if the token is current, and none if it is stale.
const RAISE: &str = "
INSERT INTO fence (lock_name, token, grant_id) VALUES (:lock_name, :token, :grant_id)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.token
   OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id);
";

const WRITE: &str = "
INSERT INTO documents (name, body) VALUES (:name, :body)
ON CONFLICT (name) DO UPDATE SET body = excluded.body;
";

/// The proof of a holder, for each write.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) lock_name: String,
    pub(crate) token: u64,
    pub(crate) grant_id: String,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Accepted,
    /// A newer holder has raised the fence to this token.
    Rejected {
        highest: u64,
    },
}

pub(crate) struct Store(Connection);

impl Store {
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        connection.execute_batch(TABLES)?;
        Ok(Self(connection))
    }

    /// Writes, unless a newer holder has raised the fence.
    pub(crate) fn write(&mut self, pass: &Pass, name: &str, body: &str) -> rusqlite::Result<Written> {
        self.fenced(pass, |connection| {
            connection.execute(WRITE, named_params! { ":name": name, ":body": body }).map(|_rows| ())
        })
    }

    /// Only raises the fence. No earlier holder can change what the caller reads afterwards.
    pub(crate) fn enter(&mut self, pass: &Pass) -> rusqlite::Result<Written> {
        self.fenced(pass, |_connection| Ok(()))
    }

    /// Writes without a check, like a store without fencing.
    pub(crate) fn write_unchecked(&mut self, name: &str, body: &str) -> rusqlite::Result<Written> {
        self.0.execute(WRITE, named_params! { ":name": name, ":body": body })?;
        Ok(Written::Accepted)
    }

    pub(crate) fn read(&self, name: &str) -> rusqlite::Result<Option<String>> {
        self.0.query_row("SELECT body FROM documents WHERE name = ?1", [name], |row| row.get(0)).optional()
    }

    /// Checks and raises the token, and acts, in one transaction.
    fn fenced(
        &mut self,
        pass: &Pass,
        act: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Written> {
        // Tokens are below 2^53, so they fit into SQLite's integers.
        let token = i64::try_from(pass.token).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let raised = transaction.execute(
            RAISE,
            named_params! { ":lock_name": pass.lock_name, ":token": token, ":grant_id": pass.grant_id },
        )?;
        if raised == 0 {
            let highest: i64 =
                transaction
                    .query_row("SELECT token FROM fence WHERE lock_name = ?1", [&pass.lock_name], |row| row.get(0))?;
            // The transaction rolls back when dropped.
            return Ok(Written::Rejected { highest: highest.unsigned_abs() });
        }
        act(&transaction)?;
        transaction.commit()?;
        Ok(Written::Accepted)
    }
}
