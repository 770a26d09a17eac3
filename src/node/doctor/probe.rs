//! Gathers the facts about a Redis, without any change to it.

use super::Facts;
use crate::node::{RedisUrl, dial::Dialer, handshake, pushes, reply::connect_error};
use deadpool_redis::redis::{
    self, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};
use futures_util::future::{try_join_all, try_join3};
use std::{collections::BTreeMap, sync::Arc};

/// The settings that are judged.
const SETTINGS: [&str; 8] = [
    "maxmemory-policy",
    "maxmemory",
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "save",
    "min-replicas-to-write",
    "min-replicas-max-lag",
];

/// A connection to ask questions on.
///
/// A question has two kinds of errors. The outer one means that the connection failed, or that Redis is busy for now;
/// the inner one is Redis' refusal, which is a fact like any other. Dropping a question leaves nothing behind.
pub struct Probe {
    connection: MultiplexedConnection,
    address: Arc<str>,
    /// Whether it leads to a member of a Redis Cluster.
    in_cluster: bool,
}

impl Probe {
    /// Connects to a Redis of any kind and role. The error says why that failed and what to do.
    pub async fn connect(url: &RedisUrl) -> Result<Self, String> {
        let made = Dialer::new(url.into()).connect_outside(|_| {}).await?;
        Ok(Self::new(made.connection, made.address, url.is_in_cluster()))
    }

    pub(in crate::node) fn new(connection: MultiplexedConnection, address: Arc<str>, in_cluster: bool) -> Self {
        Self { connection, address, in_cluster }
    }

    /// Whether it leads to a member of a Redis Cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// The command by which a server publishes messages.
    pub fn publish(&self) -> &'static str {
        pushes::publish(self.in_cluster)
    }

    /// Gathers all facts.
    pub async fn gather(&self) -> Result<Facts, String> {
        let scripts = self.may_run_scripts().await?;
        self.gather_the_rest(scripts).await
    }

    /// Gathers the facts where scripts run already: a connection that loses the right to run them is closed by the
    /// first script that is refused.
    pub async fn gather_again(&self) -> Result<Facts, String> {
        self.gather_the_rest(Ok(())).await
    }

    /// Asks one question: a command and its arguments. Questions that are polled together take one round trip.
    pub fn ask<T: FromRedisValue>(
        &self,
        question: &[&str],
    ) -> impl Future<Output = Result<Result<T, String>, String>> + use<T> {
        let (mut connection, mut command) = (self.connection.clone(), Cmd::new());
        command.arg(question);
        async move {
            match connection.send_packed_command(&command).await.and_then(Value::extract_error) {
                Ok(value) => Ok(redis::from_redis_value(value).map_err(|error| format!("unexpected answer: {error}"))),
                Err(error) => refusal(&error).map(Err),
            }
        }
    }

    async fn gather_the_rest(&self, scripts: Result<(), String>) -> Result<Facts, String> {
        // A question for each setting: a Redis that does not know one of them still tells the others.
        let setting = async |name| self.ask::<BTreeMap<String, String>>(&["CONFIG", "GET", name]).await;
        let settings = try_join_all(SETTINGS.map(setting));
        let (clock, info, settings) = try_join3(self.ask::<Value>(&["TIME"]), self.ask(&["INFO"]), settings).await?;
        let settings = settings.into_iter().collect::<Result<Vec<_>, _>>();
        Ok(Facts {
            address: self.address.as_ref().to_owned(),
            in_cluster: self.in_cluster,
            keeps_ttls: false,
            info,
            settings: settings.map(|settings| settings.into_iter().flatten().collect()),
            scripts,
            clock: clock.map(drop),
        })
    }

    async fn may_run_scripts(&self) -> Result<Result<(), String>, String> {
        let asked = handshake::run_unknown_script();
        match self.connection.clone().send_packed_command(&asked).await.and_then(Value::extract_error) {
            Ok(_) => Ok(Ok(())),
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(Ok(())),
            Err(error) => refusal(&error).map(Err),
        }
    }
}

/// Redis' refusal of a question; an error if it says nothing about this Redis.
fn refusal(error: &RedisError) -> Result<String, String> {
    match error.kind() {
        // A passing state: nothing to judge this Redis by.
        ErrorKind::Server(ServerErrorKind::BusyLoading) => Err(connect_error(error)),
        _ if error.code() == Some("BUSY") => Err(connect_error(error)),
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let (code, detail) = (error.code().unwrap_or_default(), error.detail().unwrap_or_default());
            Ok(format!("{code} {detail}"))
        }
        _ => Err(connect_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_fact_and_what_will_pass_is_none() {
        let error = |kind| RedisError::from((kind, "said", "more".to_owned()));
        let loading = refusal(&error(ErrorKind::Server(ServerErrorKind::BusyLoading)));
        assert!(loading.unwrap_err().contains("loading"));
        assert!(refusal(&error(ErrorKind::Io)).is_err());
        assert!(refusal(&error(ErrorKind::Server(ServerErrorKind::NoPerm))).unwrap().contains("more"));
    }
}
