//! One Sentinel: its answers about the primary and its notices of switches, over one connection that is kept.

use super::{address_of, vote::SentinelAnswer};
use crate::{
    node::{
        RedisUrl,
        dial::{self, Unopened},
        reply::connect_error,
    },
    sync::{Mutex, Notify},
};
use deadpool_redis::redis::{
    self, ErrorKind, PushInfo, PushKind, RedisError, Value,
    aio::{MultiplexedConnection, SendError},
};
use std::{collections::BTreeMap, sync::Arc};

/// The channel on which a Sentinel tells that it knows a new primary.
const SWITCHED: &str = "+switch-master";

/// A Sentinel.
pub(super) struct Sentinel {
    url: RedisUrl,
    line: Mutex<Option<MultiplexedConnection>>,
}

impl Sentinel {
    pub(super) fn new(url: RedisUrl) -> Self {
        Self { url, line: Mutex::new(None) }
    }

    /// Where it is.
    pub(super) fn address(&self) -> &str {
        self.url.address()
    }

    /// What it says of the primary with this name. The error says why it says nothing. `switched` is notified of each
    /// switch that it tells of from now on. Dropped, it leaves at most a connection that closes.
    pub(super) async fn ask(&self, name: &str, switched: &Arc<Notify>) -> Result<SentinelAnswer, String> {
        let kept = self.line.lock().clone();
        if let Some(mut line) = kept {
            match ask(&mut line, name).await {
                // It was restarted, and says more on a new connection.
                Err(error) if error.is_connection_dropped() => {}
                answer => return self.heed(answer, name),
            }
        }
        let mut line = self.connect(name, switched).await?;
        // Kept at once: if this takes too long, the next question need not begin anew.
        *self.line.lock() = Some(line.clone());
        // One that may not subscribe hears of a switch by asking, up to a second later.
        let _ = line.subscribe(SWITCHED).await;
        let answer = ask(&mut line, name).await;
        self.heed(answer, name)
    }

    /// Lets the connection go if it is in doubt.
    fn heed(
        &self,
        answer: Result<Result<SentinelAnswer, String>, RedisError>,
        name: &str,
    ) -> Result<SentinelAnswer, String> {
        answer.map_err(|error| {
            let is_unknown = error.detail().is_some_and(|said| said.contains("No such master"));
            match error.kind() {
                ErrorKind::Server(_) | ErrorKind::Extension if is_unknown => format!("it knows no primary {name}"),
                ErrorKind::Server(_) | ErrorKind::Extension => refusal(&error),
                _ => {
                    *self.line.lock() = None;
                    connect_error(&error)
                }
            }
        })?
    }

    async fn connect(&self, name: &str, switched: &Arc<Notify>) -> Result<MultiplexedConnection, String> {
        let (name, switched) = (name.to_owned(), Arc::clone(switched));
        let config = dial::config().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Message && is_of(&name, &push.data) {
                switched.notify_one();
            }
            Ok::<(), SendError>(())
        });
        let made = dial::try_open(&self.url, &config).await;
        made.map(|made| made.connection).map_err(|why| match why {
            Unopened::Redis(error) if is_about_entry(&error) => refusal(&error),
            why => why.words(&self.url),
        })
    }
}

/// Whether a message tells of a switch of this primary. Sentinels watch others, too.
fn is_of(name: &str, message: &[Value]) -> bool {
    let Some(Value::BulkString(text)) = message.last() else { return false };
    text.split(|byte| *byte == b' ').next() == Some(name.as_bytes())
}

/// Asks for the address and, in the same write, for the rest. The address is not taken from `SENTINEL MASTER`: there,
/// the Sentinel that leads a failover still says the old one, beside the new `config-epoch`, until all replicas follow.
async fn ask(line: &mut MultiplexedConnection, name: &str) -> Result<Result<SentinelAnswer, String>, RedisError> {
    let mut questions = redis::Pipeline::with_capacity(2);
    questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).cmd("SENTINEL").arg("MASTER").arg(name);
    let mut answers = line.send_packed_commands(&questions, 0, 2).await?.into_iter().map(Value::extract_error);
    let (Some(address), Some(fields)) = (answers.next(), answers.next()) else {
        return Ok(Err("it does not send one answer to each request".to_owned()));
    };
    let (address, fields) = (address?, fields?);
    Ok(read(&address, fields).ok_or_else(|| "it does not answer like a Sentinel".to_owned()))
}

fn read(address: &Value, fields: Value) -> Option<SentinelAnswer> {
    let (host, port): (String, u16) = redis::from_redis_value_ref(address).ok()?;
    let address = address_of(&host, port)?;
    let fields: BTreeMap<String, String> = redis::from_redis_value(fields).ok()?;
    let epoch = fields.get("config-epoch")?.parse().ok()?;
    Some(SentinelAnswer { address, epoch, fields })
}

fn is_about_entry(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

/// Why a Sentinel does not answer questions.
fn refusal(error: &RedisError) -> String {
    let said = format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default());
    let said = said.trim();
    if error.code() == Some("NOPERM") {
        return format!(
            "its user lacks permissions; grant them with ACL SETUSER … +hello +sentinel|master \
             +sentinel|get-master-addr-by-name +subscribe &{SWITCHED} (it says: {said})"
        );
    }
    if is_about_entry(error) {
        return format!(
            "it requires another password than the URL has for Sentinels; write it as \
             ?sentinel_user=…&sentinel_password=… (it says: {said})"
        );
    }
    format!("it does not answer like a Sentinel: is this its port? (it says: {said})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Value {
        Value::Array(all.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn an_answer_has_a_place_and_a_configuration() {
        let fields = ["name", "main", "ip", "10.0.0.1", "config-epoch", "7"];
        let answer = read(&texts(&["10.0.0.2", "6379"]), texts(&fields)).unwrap();
        assert_eq!((answer.address.as_str(), answer.epoch), ("10.0.0.2:6379", 7));
        assert_eq!(answer.fields["ip"], "10.0.0.1");
        assert_eq!(read(&texts(&["::1", "6379"]), texts(&fields)).unwrap().address, "[::1]:6379");
        assert_eq!(read(&texts(&["Redis.Example", "1"]), texts(&fields)).unwrap().address, "redis.example:1");
        assert_eq!(read(&Value::Nil, texts(&fields)), None);
        assert_eq!(read(&texts(&[&"h".repeat(256), "6379"]), texts(&fields)), None);
        assert_eq!(read(&texts(&["a", "none"]), texts(&fields)), None);
        assert_eq!(read(&texts(&["a", "1"]), texts(&["name", "main"])), None);
    }

    #[test]
    fn switches_of_other_primaries_are_not_heeded() {
        let message = |text: &str| [Value::BulkString(SWITCHED.into()), Value::BulkString(text.into())];
        assert!(is_of("main", &message("main 10.0.0.1 6379 10.0.0.2 6379")));
        assert!(!is_of("main", &message("main2 10.0.0.1 6379 10.0.0.2 6379")));
        assert!(!is_of("main", &message("")));
        assert!(!is_of("main", &[]));
    }
}
