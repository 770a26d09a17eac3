//! A store that fences: SQLite, one fence row per lock name.
//!
//! The row holds the highest fencing token that the store has seen, and the grant it belongs to. Whoever writes brings
//! its token; the token is checked and raised in the same transaction as the write, so that nothing fits between the
//! check and the write. This asks no clock and no lock server. It relies on one thing only: that each grant of a lock
//! has a higher token than the last.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params};
use std::{path::Path, time::Duration};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS fence (
    lock_name TEXT PRIMARY KEY,
    token     BIGINT NOT NULL,   -- the highest that was seen
    grant_id  TEXT NOT NULL      -- the grant that it was given to
);
CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, body TEXT NOT NULL);
";

/// Changes one row if the token is good, and none if it is stale.
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

/// What a holder shows with each write.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) lock_name: String,
    pub(crate) token: u64,
    pub(crate) grant_id: String,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Accepted,
    /// A newer holder has been here: its token.
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

    /// Writes if no newer holder has been here.
    pub(crate) fn write(&mut self, pass: &Pass, name: &str, body: &str) -> rusqlite::Result<Written> {
        self.fenced(pass, |connection| {
            connection.execute(WRITE, named_params! { ":name": name, ":body": body }).map(|_rows| ())
        })
    }

    /// Only raises the fence: what its caller reads afterwards, no earlier holder can change any more.
    pub(crate) fn enter(&mut self, pass: &Pass) -> rusqlite::Result<Written> {
        self.fenced(pass, |_connection| Ok(()))
    }

    /// Writes whatever was written before: what a store does that knows nothing of tokens.
    pub(crate) fn write_unchecked(&mut self, name: &str, body: &str) -> rusqlite::Result<Written> {
        self.0.execute(WRITE, named_params! { ":name": name, ":body": body })?;
        Ok(Written::Accepted)
    }

    pub(crate) fn read(&self, name: &str) -> rusqlite::Result<Option<String>> {
        self.0.query_row("SELECT body FROM documents WHERE name = ?1", [name], |row| row.get(0)).optional()
    }

    /// Check, raise and act, in one transaction.
    fn fenced(
        &mut self,
        pass: &Pass,
        act: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Written> {
        // Tokens stay below 2^53: they fit, in SQLite's integers and in everybody's.
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
            // Dropped without a commit, the transaction leaves nothing behind.
            return Ok(Written::Rejected { highest: highest.unsigned_abs() });
        }
        act(&transaction)?;
        transaction.commit()?;
        Ok(Written::Accepted)
    }
}
