//! Documents in SQLite.

use super::{Store, Written, written};
use fencepost_guards::{Grant, sqlite as guard};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params};
use std::{path::Path, time::Duration};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, body TEXT NOT NULL);";
const WRITE: &str = "
INSERT INTO documents (name, body) VALUES (:name, :body)
ON CONFLICT (name) DO UPDATE SET body = excluded.body;
";

pub(super) struct Sqlite(Connection);

impl Sqlite {
    pub(super) fn open(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection.execute_batch(TABLE).unwrap();
        guard::create(&connection).unwrap();
        Self(connection)
    }

    /// Checks and raises the token, and acts, in one transaction.
    fn fenced(&mut self, grant: Grant<'_>, act: impl FnOnce(&Connection)) -> Written {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let written = written(guard::raise(&transaction, grant));
        if written == Written::Accepted {
            act(&transaction);
            transaction.commit().unwrap();
        }
        // Otherwise the transaction rolls back when dropped.
        written
    }
}

impl Store for Sqlite {
    fn write(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        self.fenced(grant, |connection| {
            connection.execute(WRITE, named_params! { ":name": name, ":body": body }).unwrap();
        })
    }

    fn enter(&mut self, grant: Grant<'_>) -> Written {
        self.fenced(grant, |_connection| {})
    }

    fn raise_shared(&mut self, grant: Grant<'_>) -> Written {
        written(guard::raise_shared(&mut self.0, grant))
    }

    fn work(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let written = written(guard::check_shared(&transaction, grant));
        if written == Written::Accepted {
            transaction.execute(WRITE, named_params! { ":name": name, ":body": body }).unwrap();
            transaction.commit().unwrap();
        }
        written
    }

    fn write_unchecked(&mut self, name: &str, body: &str) {
        self.0.execute(WRITE, named_params! { ":name": name, ":body": body }).unwrap();
    }

    fn read(&mut self, name: &str) -> Option<String> {
        self.0.query_row("SELECT body FROM documents WHERE name = ?1", [name], |row| row.get(0)).optional().unwrap()
    }
}
