//! Asks a Redis for the facts. Nothing that is asked changes anything.

use super::{ClockSample, Facts, Meta};
use crate::{
    clock::{Clock, ProcessClock},
    node::{redis_time, why_not_connected},
    store::redis::{keys, scripts::CHANNEL},
};
use deadpool_redis::redis::{
    self, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};
use std::collections::BTreeMap;

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

/// Asks for everything. What is refused is a fact too; an error says that the connection does not hold. Dropped, it
/// leaves nothing behind.
pub(in crate::store::redis) async fn gather(connection: &mut MultiplexedConnection) -> Result<Facts, String> {
    let scripts = may_run_scripts(connection).await?;
    gather_the_rest(connection, scripts).await
}

/// The same where scripts run already: a link whose scripts may run no longer is closed by the first of them.
pub(in crate::store::redis) async fn gather_again(connection: &mut MultiplexedConnection) -> Result<Facts, String> {
    gather_the_rest(connection, Ok(())).await
}

async fn gather_the_rest(connection: &mut MultiplexedConnection, scripts: Result<(), String>) -> Result<Facts, String> {
    let clock = sample_clock(connection).await?;
    let info = ask(connection, &redis::cmd("INFO")).await?.and_then(read::<String>);
    let mut question = redis::cmd("HMGET");
    question.arg(keys::META).arg("buckets").arg("layout").arg("classic");
    let meta = ask(connection, &question).await?.and_then(read::<[Option<String>; 3]>);
    let meta = meta.map(|[buckets, layout, classic]| {
        let is_there = buckets.is_some() || layout.is_some();
        let [buckets, layout] = [buckets, layout].map(Option::unwrap_or_default);
        is_there.then_some(Meta { buckets, layout, classic })
    });
    let mut question = redis::cmd("PUBLISH");
    // Nobody listens there.
    question.arg(format!("{CHANNEL}doctor")).arg("");
    let channels = ask(connection, &question).await?.map(drop);
    let mut settings = Ok(BTreeMap::new());
    for name in SETTINGS {
        // One by one: a Redis that does not know one of them still tells the others.
        let mut question = redis::cmd("CONFIG");
        question.arg("GET").arg(name);
        let told = ask(connection, &question).await?.and_then(read::<BTreeMap<String, String>>);
        match (told, &mut settings) {
            (Ok(pairs), Ok(known)) => known.extend(pairs),
            (Err(why), known) => {
                *known = Err(why);
                break;
            }
            (Ok(_), Err(_)) => {}
        }
    }
    Ok(Facts { info, settings, scripts, channels, meta, clock })
}

async fn sample_clock(connection: &mut MultiplexedConnection) -> Result<Result<ClockSample, String>, String> {
    let ours = ProcessClock::start();
    let sent = ours.now();
    let told = ask(connection, &redis::cmd("TIME")).await?;
    let received = ours.now();
    Ok(told.and_then(|value| {
        let redis = redis_time(&value).ok_or("it answers TIME in a form that is not known here")?;
        Ok(ClockSample { sent, redis, received })
    }))
}

/// The script that is asked for does not exist: nothing runs.
async fn may_run_scripts(connection: &mut MultiplexedConnection) -> Result<Result<(), String>, String> {
    let mut question = redis::cmd("EVALSHA");
    question.arg("0000000000000000000000000000000000000000").arg(0);
    match connection.send_packed_command(&question).await.and_then(Value::extract_error) {
        Ok(_) => Ok(Ok(())),
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(Ok(())),
        Err(error) => refusal(&error).map(Err),
    }
}

/// The outer error is that of the connection, the inner one Redis' refusal.
async fn ask(connection: &mut MultiplexedConnection, question: &Cmd) -> Result<Result<Value, String>, String> {
    match connection.send_packed_command(question).await.and_then(Value::extract_error) {
        Ok(value) => Ok(Ok(value)),
        Err(error) => refusal(&error).map(Err),
    }
}

fn refusal(error: &RedisError) -> Result<String, String> {
    match error.kind() {
        // Not what it is, but what it does at the moment: nothing to judge it by.
        ErrorKind::Server(ServerErrorKind::BusyLoading) => Err(why_not_connected(error)),
        _ if error.code() == Some("BUSY") => Err(why_not_connected(error)),
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let (code, detail) = (error.code().unwrap_or_default(), error.detail().unwrap_or_default());
            Ok(format!("{code} {detail}"))
        }
        _ => Err(why_not_connected(error)),
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, String> {
    redis::from_redis_value::<T>(value).map_err(|error| format!("an answer in a form that is not known here: {error}"))
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
