//! One connection to Redis with a known incarnation at its other end. Never reconnects: a new connection is a new link.

use super::{
    Arg, Call, NodeError, Script, ServerInfo,
    batch::{MakeHeader, Queued},
    doctor::Probe,
    handshake::Greeting,
    lane::Lines,
    reply::{Fault, Then, settle, understand},
    time::RedisClock,
};
use crate::domain::{ids::Incarnation, time::StoreTime};
use deadpool_redis::redis::{Cmd, Pipeline, Value, aio::MultiplexedConnection};
use parking_lot::Mutex;
use std::{fmt, sync::OnceLock, time::Duration};
use tokio::{sync::Notify, time::Instant};

/// A connection that many callers use at once; what they send is pipelined.
pub struct Link {
    connection: MultiplexedConnection,
    info: ServerInfo,
    incarnation: Incarnation,
    clock: RedisClock,
    /// Why it is used no more.
    closed: OnceLock<String>,
    /// Wakes whoever keeps it: it was closed, or it may be dead.
    attention: Notify,
    /// What is to be sent next.
    pub(super) lines: Mutex<Lines<Queued>>,
    pub(super) header: MakeHeader,
}

impl Link {
    pub(super) fn new(connection: MultiplexedConnection, greeting: Greeting, header: MakeHeader) -> Self {
        let Greeting { info, sent, time } = greeting;
        let incarnation = info.incarnation();
        let (clock, closed, attention) = (RedisClock::new(sent, time), OnceLock::new(), Notify::new());
        Self { connection, info, incarnation, clock, closed, attention, lines: Mutex::new(Lines::new()), header }
    }

    /// The life that Redis was in when the link was made. It may leave that one without closing the link: whoever
    /// grants asks (`lua/lib/life.lua`).
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// What Redis said of itself when the link was made.
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Runs a script. Redis not knowing it is no error: it is loaded and run, on the same connection.
    ///
    /// Answers within twice the response timeout. Dropped before it is done, the script may still run: it was handed
    /// over with the first poll, and nobody hears the answer. The same holds for `OutcomeUnknown`.
    pub async fn run(&self, script: &'static Script, keys: &[String], args: &[Arg]) -> Result<Value, NodeError> {
        self.open()?;
        self.run_command(script, &script.evalsha(keys, args)).await
    }

    pub(super) async fn run_command(&self, script: &'static Script, command: &Cmd) -> Result<Value, NodeError> {
        let mut connection = self.connection.clone();
        let reply = settle(connection.send_packed_command(command).await);
        let reply = match reply {
            Err(fault) if fault.no_script => {
                let mut replies = self.load_and_run(&[script], &[command]).await;
                replies.pop().unwrap_or(Err(fault))
            }
            reply => reply,
        };
        reply.map_err(|fault| self.suffer(fault))
    }

    /// Runs several scripts, sent with one write and answered one by one, in the order of the calls. Those that Redis
    /// did not know run after the others. Each runs by itself: nothing makes them one.
    ///
    /// Dropped before it is done, each of them may still run.
    pub async fn run_all(&self, calls: Vec<Call>) -> Vec<Result<Value, NodeError>> {
        if calls.is_empty() {
            return Vec::new();
        }
        if let Err(error) = self.open() {
            return calls.iter().map(|_| Err(error.clone())).collect();
        }
        let commands: Vec<Cmd> = calls.iter().map(Call::evalsha).collect();
        let mut replies = self.send(&commands.iter().collect::<Vec<_>>()).await;
        let strange = |reply: &Result<Value, Fault>| reply.as_ref().is_err_and(|fault| fault.no_script);
        let missing: Vec<usize> = (0..replies.len()).filter(|index| strange(&replies[*index])).collect();
        if !missing.is_empty() {
            let mut scripts: Vec<&Script> = missing.iter().map(|index| calls[*index].script).collect();
            scripts.sort_unstable_by_key(|script| script.sha());
            scripts.dedup_by_key(|script| script.sha());
            let again: Vec<&Cmd> = missing.iter().map(|index| &commands[*index]).collect();
            for (index, reply) in missing.into_iter().zip(self.load_and_run(&scripts, &again).await) {
                replies[index] = reply;
            }
        }
        replies.into_iter().map(|reply| reply.map_err(|fault| self.suffer(fault))).collect()
    }

    /// Takes note of Redis' clock: a command sent at `sent` found it at `redis_now`.
    pub fn sample(&self, sent: Instant, redis_now: StoreTime) {
        self.clock.sample(sent, redis_now);
    }

    /// What Redis' clock shows now, as far as is known: not before its true time, and past it by no more than the round
    /// trip of the newest sample, unless its clock was set since.
    pub fn now_estimate(&self) -> StoreTime {
        self.clock.at(Instant::now())
    }

    /// When a command that is sent now stops being wanted, in Redis' time: not before `window` has passed there, and
    /// later by no more than the round trip of the newest sample (the response timeout at most), unless its clock was
    /// set since.
    pub fn not_after(&self, window: Duration) -> StoreTime {
        self.clock.not_after(Instant::now(), window)
    }

    /// Uses the link no more, because of what a caller found: that Redis moved on from its incarnation, for one. Calls
    /// on their way are answered; another link takes its place.
    pub fn retire(&self, why: &str) {
        if self.closed.set(why.to_owned()).is_ok() {
            self.attention.notify_one();
        }
    }

    pub(super) fn closed(&self) -> Option<&str> {
        self.closed.get().map(String::as_str)
    }

    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Asks questions on this connection.
    pub fn probe(&self) -> Probe {
        Probe::new(self.connection())
    }

    /// Waits until the link was closed, or may be dead.
    pub(super) async fn attention(&self) {
        self.attention.notified().await;
    }

    pub(super) fn open(&self) -> Result<(), NodeError> {
        self.closed.get().map_or(Ok(()), |why| Err(NodeError::Unavailable(why.clone())))
    }

    fn suffer(&self, fault: Fault) -> NodeError {
        match fault.then {
            Then::Keep => {}
            Then::Check => self.attention.notify_one(),
            Then::Close => self.retire(&fault.error.to_string()),
        }
        fault.error
    }

    async fn send(&self, commands: &[&Cmd]) -> Vec<Result<Value, Fault>> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(Cmd::clone(command));
        }
        let mut connection = self.connection.clone();
        match connection.send_packed_commands(&pipeline, 0, commands.len()).await {
            Ok(values) if values.len() == commands.len() => values.into_iter().map(|value| settle(Ok(value))).collect(),
            Ok(_) => vec![Err(Fault::out_of_step()); commands.len()],
            Err(error) => vec![Err(understand(&error)); commands.len()],
        }
    }

    /// Safe, because a script that is not known did not run. Loaded and run in one write: no flush of the scripts by
    /// others finds a long time between. (EVAL instead would do for one, but newer versions forget first what came that
    /// way.)
    async fn load_and_run(&self, scripts: &[&Script], commands: &[&Cmd]) -> Vec<Result<Value, Fault>> {
        let loads: Vec<Cmd> = scripts.iter().map(|script| script.load()).collect();
        let all: Vec<&Cmd> = loads.iter().chain(commands.iter().copied()).collect();
        let mut replies = self.send(&all).await;
        let runs = replies.split_off(loads.len());
        // A script that could not be loaded is why its run failed.
        let load_failed = replies.into_iter().find_map(Result::err);
        let reason = |reply: Result<Value, Fault>| match (reply, &load_failed) {
            (Err(fault), Some(first)) if fault.no_script => Err(first.clone()),
            (reply, _) => reply,
        };
        runs.into_iter().map(reason).collect()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Link")
            .field("incarnation", &self.incarnation)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
