//! One connection to Redis, to a known incarnation. It never reconnects: a new connection is another [`Connection`].

use super::{
    Arg, Incarnation, NodeError, Script, ScriptCall, ServerInfo,
    dial::Made,
    doctor::Probe,
    pushes,
    reply::{Action, Fault, classify, outcome},
};
use crate::{
    sync::Notify,
    telemetry::metrics::{RoundTrip, StoreMetrics},
};
use deadpool_redis::redis::{Cmd, Pipeline, Value, aio::MultiplexedConnection};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};
use tokio::time::Instant;

/// A connection that many callers share. Their commands are pipelined.
pub struct Connection {
    connection: MultiplexedConnection,
    address: Arc<str>,
    /// Whether it leads to a member of a Redis Cluster.
    in_cluster: bool,
    info: ServerInfo,
    incarnation: Incarnation,
    /// Why it is not used any more.
    closed: OnceLock<String>,
    /// Wakes its keeper: it was closed, or may be dead.
    attention: Notify,
    metrics: Arc<StoreMetrics>,
}

impl Connection {
    pub(super) fn new(
        Made { connection, address, .. }: Made,
        in_cluster: bool,
        info: ServerInfo,
        metrics: Arc<StoreMetrics>,
    ) -> Self {
        let (incarnation, closed, attention) = (info.incarnation(), OnceLock::new(), Notify::new());
        Self { connection, address, in_cluster, info, incarnation, closed, attention, metrics }
    }

    /// The incarnation of Redis when the connection was made. Redis may go on to another without closing the
    /// connection, so a script for which that matters has to compare.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Where it leads: `host:port`, or `host:port/database`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What Redis said of itself when the connection was made.
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Runs a script. If Redis does not know it, it is loaded and run, on the same connection.
    ///
    /// Answers within twice the response timeout. The first poll hands the script over: dropped after that, it may
    /// still run, as it may after `OutcomeUnknown`.
    pub async fn run(&self, script: &'static Script, keys: &[Arg], args: &[Arg]) -> Result<Value, NodeError> {
        self.ensure_open()?;
        let command = script.evalsha(keys, args, self.info.takes_headers);
        let reply = match self.send_one(&command).await {
            Err(fault) if fault.no_script => {
                let mut replies = self.load_and_run(&[script], vec![command.clone()]).await;
                replies.pop().unwrap_or(Err(fault))
            }
            reply => reply,
        };
        reply.map_err(|fault| self.heed(fault))
    }

    /// Runs several scripts, sent with one write and answered one by one, in the order of the calls. Those that Redis
    /// did not know run after the others. They are not a transaction.
    ///
    /// Dropped, each of them may still run.
    pub async fn run_all<C: AsRef<ScriptCall>>(&self, calls: &[C]) -> Vec<Result<Value, NodeError>> {
        if calls.is_empty() {
            return Vec::new();
        }
        if let Err(error) = self.ensure_open() {
            return calls.iter().map(|_| Err(error.clone())).collect();
        }
        let _measured = self.measure_round_trip();
        let mut replies =
            self.send(calls.iter().map(|call| call.as_ref().evalsha(self.info.takes_headers)).collect()).await;
        let is_missing = |reply: &Result<Value, Fault>| reply.as_ref().is_err_and(|fault| fault.no_script);
        let missing: Vec<usize> = (0..replies.len()).filter(|index| is_missing(&replies[*index])).collect();
        if !missing.is_empty() {
            let mut scripts: Vec<&Script> = missing.iter().map(|index| calls[*index].as_ref().script).collect();
            scripts.sort_unstable_by_key(|script| script.sha());
            scripts.dedup_by_key(|script| script.sha());
            let run = |index: &usize| calls[*index].as_ref().evalsha(self.info.takes_headers);
            let again = missing.iter().map(run).collect();
            for (index, reply) in missing.into_iter().zip(self.load_and_run(&scripts, again).await) {
                replies[index] = reply;
            }
        }
        replies.into_iter().map(|reply| reply.map_err(|fault| self.heed(fault))).collect()
    }

    /// Publishes a message on a channel, and says how many listen there. What is published at the same time goes out in
    /// one write. In a Redis Cluster the channel has to have the hash tag of the keys, and all listen at the primary.
    ///
    /// Answers within the response timeout. The first poll hands the message over: dropped after that, it may still be
    /// published, as it may after `OutcomeUnknown`.
    pub async fn publish(&self, channel: &str, message: &[u8]) -> Result<u64, NodeError> {
        self.ensure_open()?;
        let mut command = Cmd::with_capacity(3, channel.len() + message.len() + 16);
        command.arg(pushes::publish(self.in_cluster)).arg(channel).arg(message);
        match self.send_one(&command).await.map_err(|fault| self.heed(fault))? {
            Value::Int(listeners) => Ok(listeners.unsigned_abs()),
            other => Err(NodeError::Corrupt(format!("PUBLISH was answered {other:?}"))),
        }
    }

    async fn send_one(&self, command: &Cmd) -> Result<Value, Fault> {
        let _measured = self.measure_round_trip();
        let mut connection = self.connection.clone();
        outcome(connection.send_packed_command(command).await)
    }

    /// Counts a round trip with commands, and measures its time until the guard is dropped.
    fn measure_round_trip(&self) -> RoundTripTime<'_> {
        self.metrics.round_trips.of(RoundTrip::Commands).inc();
        RoundTripTime { metrics: &self.metrics, sent: Instant::now() }
    }

    /// Closes the connection to new commands, because of something that a caller found: for example that Redis has left
    /// its incarnation. Commands in flight are answered, and another connection replaces this one.
    pub fn retire(&self, why: &str) {
        if self.closed.set(why.to_owned()).is_ok() {
            self.attention.notify_one();
        }
    }

    /// Why it is not used any more, if it is closed.
    pub fn closed(&self) -> Option<&str> {
        self.closed.get().map(String::as_str)
    }

    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Asks questions on this connection.
    pub fn probe(&self) -> Probe {
        Probe::new(self.connection(), Arc::clone(&self.address), self.in_cluster)
    }

    /// Waits until the connection was closed, or may be dead.
    pub(super) async fn attention(&self) {
        self.attention.notified().await;
    }

    pub(super) fn ensure_open(&self) -> Result<(), NodeError> {
        self.closed.get().map_or(Ok(()), |why| Err(NodeError::Unavailable(why.clone())))
    }

    /// Does to the connection what its fault asks for.
    fn heed(&self, fault: Fault) -> NodeError {
        match fault.action {
            Action::Keep => {}
            Action::Check => self.attention.notify_one(),
            Action::Close => self.retire(&fault.error.to_string()),
        }
        fault.error
    }

    async fn send(&self, commands: Vec<Cmd>) -> Vec<Result<Value, Fault>> {
        let mut connection = self.connection.clone();
        if let [command] = &commands[..] {
            return vec![outcome(connection.send_packed_command(command).await)];
        }
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count);
        for command in commands {
            pipeline.add_command(command);
        }
        match connection.send_packed_commands(&pipeline, 0, count).await {
            Ok(values) if values.len() == count => values.into_iter().map(|value| outcome(Ok(value))).collect(),
            Ok(_) => vec![Err(Fault::out_of_step()); count],
            Err(error) => vec![Err(classify(&error)); count],
        }
    }

    /// Loads scripts that Redis did not know, and runs them. That is safe, because an unknown script did not run. Both
    /// go in one write, so that a SCRIPT FLUSH hardly ever comes between. (EVAL would do for one script, but newer
    /// versions of Redis evict scripts that came that way.)
    async fn load_and_run(&self, scripts: &[&Script], commands: Vec<Cmd>) -> Vec<Result<Value, Fault>> {
        let loads = scripts.iter().map(|script| script.load(self.info.takes_headers));
        let mut replies = self.send(loads.chain(commands).collect()).await;
        let runs = replies.split_off(scripts.len());
        // A run that failed because its script could not be loaded has the reason of that.
        let load_failed = replies.into_iter().find_map(Result::err);
        let reason = |reply: Result<Value, Fault>| match (reply, &load_failed) {
            (Err(fault), Some(first)) if fault.no_script => Err(first.clone()),
            (reply, _) => reply,
        };
        runs.into_iter().map(reason).collect()
    }
}

/// Dropped, it measures the time of a round trip.
struct RoundTripTime<'a> {
    metrics: &'a StoreMetrics,
    sent: Instant,
}

impl Drop for RoundTripTime<'_> {
    fn drop(&mut self) {
        self.metrics.round_trip_seconds.observe(self.sent.elapsed().as_secs_f64());
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Connection")
            .field("incarnation", &self.incarnation)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
