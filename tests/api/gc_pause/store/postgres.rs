//! Documents in PostgreSQL.

use super::{Store, Written, runtime, written};
use fencepost_guards::{Grant, postgres as guard};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Transaction};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, body TEXT NOT NULL)";
const WRITE: &str = "
INSERT INTO documents (name, body) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET body = excluded.body
";
/// Held while a process creates the tables, because PostgreSQL refuses to create a table twice at the same time.
const CREATE_LOCK: &str = "SELECT pg_advisory_xact_lock(1)";

pub(super) struct Postgres {
    runtime: Runtime,
    client: Client,
}

impl Postgres {
    pub(super) fn open(url: &str) -> Self {
        let runtime = runtime();
        let client = runtime.block_on(async {
            let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            let transaction = client.transaction().await.unwrap();
            transaction.batch_execute(CREATE_LOCK).await.unwrap();
            transaction.batch_execute(TABLE).await.unwrap();
            guard::create(&transaction).await.unwrap();
            transaction.commit().await.unwrap();
            client
        });
        Self { runtime, client }
    }

    /// Checks and raises the token, and acts, in one transaction.
    fn fenced(&mut self, grant: Grant<'_>, act: impl AsyncFnOnce(&Transaction<'_>)) -> Written {
        self.runtime.block_on(async {
            let transaction = self.client.transaction().await.unwrap();
            let written = written(guard::raise(&transaction, grant).await);
            match written {
                Written::Accepted => {
                    act(&transaction).await;
                    transaction.commit().await.unwrap();
                }
                _ => transaction.rollback().await.unwrap(),
            }
            written
        })
    }
}

impl Store for Postgres {
    fn write(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        self.fenced(grant, async |transaction: &Transaction<'_>| {
            transaction.execute(WRITE, &[&name, &body]).await.unwrap();
        })
    }

    fn enter(&mut self, grant: Grant<'_>) -> Written {
        self.fenced(grant, async |_: &Transaction<'_>| {})
    }

    fn raise_shared(&mut self, grant: Grant<'_>) -> Written {
        written(self.runtime.block_on(guard::raise_shared(&self.client, grant)))
    }

    fn work(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        self.runtime.block_on(async {
            let transaction = self.client.transaction().await.unwrap();
            let written = written(guard::check_shared(&transaction, grant).await);
            if written == Written::Accepted {
                transaction.execute(WRITE, &[&name, &body]).await.unwrap();
                transaction.commit().await.unwrap();
            }
            // Otherwise the transaction rolls back when dropped.
            written
        })
    }

    fn write_unchecked(&mut self, name: &str, body: &str) {
        self.runtime.block_on(self.client.execute(WRITE, &[&name, &body])).unwrap();
    }

    fn read(&mut self, name: &str) -> Option<String> {
        let text = "SELECT body FROM documents WHERE name = $1";
        self.runtime.block_on(self.client.query_opt(text, &[&name])).unwrap().map(|row| row.get(0))
    }
}
