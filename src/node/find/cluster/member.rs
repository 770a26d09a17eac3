//! One member of a Redis Cluster: what it says of the cluster, over one connection that is kept.

use super::view::{self, View};
use crate::{
    node::{RedisUrl, dial, reply::connect_error},
    sync::Mutex,
};
use deadpool_redis::redis::{ErrorKind, Pipeline, RedisError, Value, aio::MultiplexedConnection};

/// A member, as a Redis at an address.
pub(super) struct Member {
    url: RedisUrl,
    line: Mutex<Option<MultiplexedConnection>>,
}

impl Member {
    pub(super) fn new(url: RedisUrl) -> Self {
        Self { url, line: Mutex::new(None) }
    }

    /// Where it is.
    pub(super) fn address(&self) -> &str {
        self.url.address()
    }

    /// What it says of the cluster and of the primary of this slot. The error says why it says nothing. Dropped, it
    /// leaves at most a connection that closes.
    pub(super) async fn ask(&self, slot: u16) -> Result<View, String> {
        let kept = self.line.lock().clone();
        let answers = match kept {
            Some(mut line) => match ask(&mut line).await {
                // It was restarted, and says more on a new connection.
                Err(error) if error.is_connection_dropped() => self.ask_anew().await?,
                answers => answers,
            },
            None => self.ask_anew().await?,
        };
        match answers {
            Ok(answers) => view::read(slot, self.url.host(), &answers),
            Err(error) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => {
                // The password may have expired: a new connection reads the file again.
                if error.code() == Some("NOAUTH") {
                    *self.line.lock() = None;
                }
                Err(refusal(&error, &self.url))
            }
            Err(error) => {
                *self.line.lock() = None;
                Err(connect_error(&error))
            }
        }
    }

    async fn ask_anew(&self) -> Result<Result<[Value; 3], RedisError>, String> {
        let made = dial::try_open(&self.url, &dial::config()).await;
        let mut line = made.map_err(|why| why.words(&self.url))?.connection;
        // Kept at once: if this takes too long, the next question need not begin anew.
        *self.line.lock() = Some(line.clone());
        Ok(ask(&mut line).await)
    }
}

/// All in one write. A slot may move between two of the answers, which shows.
async fn ask(line: &mut MultiplexedConnection) -> Result<[Value; 3], RedisError> {
    let mut questions = Pipeline::with_capacity(3);
    for question in ["INFO", "NODES", "SLOTS"] {
        questions.cmd("CLUSTER").arg(question);
    }
    let answers = line.send_packed_commands(&questions, 0, 3).await?;
    let answers = answers.into_iter().map(Value::extract_error).collect::<Result<Vec<_>, _>>()?;
    answers.try_into().map_err(|_| RedisError::from((ErrorKind::Parse, "not one answer to each request")))
}

/// Why a Redis does not answer questions about its cluster.
fn refusal(error: &RedisError, url: &RedisUrl) -> String {
    let (code, detail) = (error.code().unwrap_or_default(), error.detail().unwrap_or_default());
    if detail.contains("cluster support disabled") {
        return format!("this Redis is not in cluster mode: write {url} in place of the cluster");
    }
    if code == "NOPERM" {
        return format!(
            "the Redis user of the URL lacks permissions; grant them with ACL SETUSER … +cluster|info +cluster|nodes \
             +cluster|slots (it says: {code} {detail})"
        );
    }
    connect_error(error)
}
