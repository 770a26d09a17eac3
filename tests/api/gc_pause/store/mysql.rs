//! Documents in MySQL or MariaDB.

use super::{Store, Written, runtime, written};
use fencepost_guards::{Grant, mysql as guard};
use mysql_async::{Conn, Opts, Transaction, TxOpts, prelude::Queryable};
use tokio::runtime::Runtime;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS documents (name VARCHAR(255) PRIMARY KEY, body TEXT NOT NULL)";
const WRITE: &str = "INSERT INTO documents (name, body) VALUES (?, ?) ON DUPLICATE KEY UPDATE body = VALUES(body)";

pub(super) struct Mysql {
    runtime: Runtime,
    connection: Conn,
}

impl Mysql {
    pub(super) fn open(url: &str) -> Self {
        let runtime = runtime();
        let connection = runtime.block_on(async {
            let mut connection = Conn::new(Opts::from_url(url).unwrap()).await.unwrap();
            connection.query_drop(TABLE).await.unwrap();
            guard::create(&mut connection).await.unwrap();
            connection
        });
        Self { runtime, connection }
    }

    /// Checks and raises the token, and acts, in one transaction.
    fn fenced(&mut self, grant: Grant<'_>, act: impl AsyncFnOnce(&mut Transaction<'_>)) -> Written {
        self.runtime.block_on(async {
            let mut transaction = self.connection.start_transaction(TxOpts::default()).await.unwrap();
            let written = written(guard::raise(&mut transaction, grant).await);
            match written {
                Written::Accepted => {
                    act(&mut transaction).await;
                    transaction.commit().await.unwrap();
                }
                _ => transaction.rollback().await.unwrap(),
            }
            written
        })
    }
}

impl Store for Mysql {
    fn write(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        self.fenced(grant, async |transaction: &mut Transaction<'_>| {
            transaction.exec_drop(WRITE, (name, body)).await.unwrap();
        })
    }

    fn enter(&mut self, grant: Grant<'_>) -> Written {
        self.fenced(grant, async |_: &mut Transaction<'_>| {})
    }

    fn raise_shared(&mut self, grant: Grant<'_>) -> Written {
        written(self.runtime.block_on(guard::raise_shared(&mut self.connection, grant)))
    }

    fn work(&mut self, grant: Grant<'_>, name: &str, body: &str) -> Written {
        self.runtime.block_on(async {
            let mut transaction = self.connection.start_transaction(TxOpts::default()).await.unwrap();
            let written = written(guard::check_shared(&mut transaction, grant).await);
            if written == Written::Accepted {
                transaction.exec_drop(WRITE, (name, body)).await.unwrap();
                transaction.commit().await.unwrap();
            }
            // Otherwise the transaction rolls back when dropped.
            written
        })
    }

    fn write_unchecked(&mut self, name: &str, body: &str) {
        self.runtime.block_on(self.connection.exec_drop(WRITE, (name, body))).unwrap();
    }

    fn read(&mut self, name: &str) -> Option<String> {
        let text = "SELECT body FROM documents WHERE name = ?";
        self.runtime.block_on(self.connection.exec_first(text, (name,))).unwrap()
    }
}
