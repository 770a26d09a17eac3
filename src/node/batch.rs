//! Commands that are submitted at the same moment are sent in one batch: one run of the script that they share.
//!
//! The commands of a batch run in any order; no caller submits its second before the first is answered.
//!
//! There is no timer: a batch leaves as soon as the tasks that are ready to run have run, so a lone command is sent at
//! once. Where too many commands are in flight, they are queued ([`Lane`]).
//!
//! The batches have tasks of their own, because a caller may be dropped, or not be polled while its client stalls: it
//! must not hold what others wait for.

use super::{
    Connection, Lane, NodeError, Script, ScriptCommand,
    queue::{Counts, Queues, Taken},
};
use crate::{
    domain::time::StoreTime,
    sync::Mutex,
    telemetry::traces::{SpanContext, failed},
};
use deadpool_redis::redis::Value;
use futures_util::future::{Pending, join_all, pending};
use std::sync::Arc;
use tokio::{runtime::Handle, sync::oneshot, time::Instant};

/// Commands in one batch. Redis does nothing else while a batch runs: half a millisecond for cheap commands, a few for
/// others.
pub const COMMANDS_PER_BATCH: usize = 32;

/// What a script takes before the commands of a batch.
#[derive(Debug, Default)]
pub struct Header {
    /// The script's key, by which Redis checks the permissions of its user.
    pub key: String,
    /// The script's first argument, packed.
    pub packed: Vec<u8>,
}

/// Makes the header of a batch.
pub(super) type MakeHeader = Arc<dyn Fn(&Connection, u16) -> Header + Send + Sync>;

/// The caller of a command.
#[derive(Debug)]
pub struct Caller<F> {
    /// Resolves when the caller stops waiting for a command that is still queued.
    stop: F,
    stopped: bool,
    /// The command was sent, and the caller was dropped before the reply came.
    pub is_outcome_unknown: bool,
}

impl Caller<Pending<()>> {
    /// A caller that waits for as long as a command may be queued.
    pub fn patient() -> Self {
        Self::until(pending())
    }
}

impl<F: Future<Output = ()> + Unpin> Caller<F> {
    /// A caller that waits until `stop` resolves.
    pub fn until(stop: F) -> Self {
        Self { stop, stopped: false, is_outcome_unknown: false }
    }

    /// Whether `stop` has resolved.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }
}

/// The reply to one command.
#[derive(Debug)]
pub struct Reply {
    /// When the command was sent.
    pub sent: Instant,
    /// Redis' time as the script used it.
    pub now: StoreTime,
    /// The rest, packed.
    pub packed: Vec<u8>,
}

/// A command in its queue.
#[derive(Debug)]
pub(super) struct QueuedCommand {
    lane: Lane,
    script: &'static Script,
    tag: u16,
    packed: Vec<u8>,
    reply: oneshot::Sender<Answer>,
    /// The span that it belongs to, if traces are on. Boxed: they seldom are.
    span: Option<Box<SpanContext>>,
}

type Answer = Result<Reply, NodeError>;

/// Ties a caller to the command that it submitted. Dropped, it withdraws the command, or marks the caller if it is too
/// late for that.
struct Ticket<'a> {
    queues: &'a Mutex<Queues<QueuedCommand>>,
    lane: Lane,
    number: u64,
    answer: oneshot::Receiver<Answer>,
    is_outcome_unknown: &'a mut bool,
    /// The answer has come, or none will.
    is_settled: bool,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let nothing_done = |answer: Answer| answer.is_err_and(|error| error.is_nothing_done());
        if !self.is_settled
            // mutant: cleanup after what was never sent
            && !self.queues.lock().withdraw(self.lane, self.number)
        {
            *self.is_outcome_unknown = !self.answer.try_recv().is_ok_and(nothing_done);
        }
    }
}

/// Commands in flight. Dropped, they make room for others.
struct InFlight {
    connection: Arc<Connection>,
    counts: Counts,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut queues = self.connection.queues.lock();
        queues.completed(self.counts);
        self.connection.send_if_due(&mut queues);
    }
}

/// Divides commands into batches, each of one script.
fn batches(commands: Vec<QueuedCommand>) -> Vec<Vec<QueuedCommand>> {
    let mut batches: Vec<Vec<QueuedCommand>> = Vec::with_capacity(2);
    for command in commands {
        let fits = |batch: &Vec<QueuedCommand>| {
            batch.len() < COMMANDS_PER_BATCH && std::ptr::eq(batch[0].script, command.script)
        };
        match batches.iter().position(fits) {
            Some(index) => batches[index].push(command),
            None => batches.push(vec![command]),
        }
    }
    batches
}

/// Splits the reply of a script into the time that it used and the replies to its commands.
pub fn replies(value: Value, count: usize) -> Result<(StoreTime, Vec<Vec<u8>>), NodeError> {
    let strange = || NodeError::Corrupt("a script answered something else than it was asked".to_owned());
    let Value::Array(values) = value else { return Err(strange()) };
    let mut values = values.into_iter();
    let Some(Value::Int(now)) = values.next() else { return Err(strange()) };
    let each = values.map(|value| if let Value::BulkString(bytes) = value { Ok(bytes) } else { Err(strange()) });
    let each = each.collect::<Result<Vec<_>, _>>()?;
    let now = StoreTime::from_micros(u64::try_from(now).map_err(|_| strange())?);
    if each.len() == count { Ok((now, each)) } else { Err(strange()) }
}

impl Connection {
    /// Runs one command, in a batch with others of this moment. A command that was queued for [`QUEUE_TIME_MAX`], or
    /// that is not about to be sent when its caller stops waiting, is `Overloaded`.
    ///
    /// `tag` is a number that the header of the batch is made from. Dropped before it is sent, the command is not sent.
    /// Dropped later, it may run, and the caller is marked: its outcome is unknown.
    ///
    /// [`QUEUE_TIME_MAX`]: super::QUEUE_TIME_MAX
    pub async fn submit<F: Future<Output = ()> + Unpin>(
        self: &Arc<Self>,
        command: &'static ScriptCommand,
        tag: u16,
        packed: Vec<u8>,
        caller: &mut Caller<F>,
    ) -> Result<Reply, NodeError> {
        self.ensure_open()?;
        let (reply, answer) = oneshot::channel();
        let lane = command.lane();
        let span = self.traces.present().map(Box::new);
        let queued = QueuedCommand { lane, script: command.script(), tag, packed, reply, span };
        let number = {
            let mut queues = self.queues.lock();
            let number = queues.push(lane, Instant::now(), queued);
            self.send_if_due(&mut queues);
            number
        };
        let Caller { stop, stopped, is_outcome_unknown } = caller;
        let mut ticket = Ticket { queues: &self.queues, lane, number, answer, is_outcome_unknown, is_settled: false };
        let answer = tokio::select! {
            biased;
            answer = &mut ticket.answer => answer,
            // mutant: stands in line for ever
            () = stop, if !*stopped => {
                *stopped = true;
                if self.queues.lock().withdraw_unless_next(lane, number) {
                    ticket.is_settled = true;
                    return Err(NodeError::Overloaded);
                }
                (&mut ticket.answer).await
            }
        };
        ticket.is_settled = true;
        answer.unwrap_or_else(|_| Err(NodeError::OutcomeUnknown("the server is stopping".to_owned())))
    }

    /// Starts a task that sends queued commands, if some may be sent.
    fn send_if_due(self: &Arc<Self>, queues: &mut Queues<QueuedCommand>) {
        // Without a runtime there is no caller left.
        if queues.begin_send()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(Arc::clone(self).send_queued());
        }
    }

    async fn send_queued(self: Arc<Self>) {
        tokio::task::yield_now().await;
        let next = {
            let mut queues = self.queues.lock();
            let Taken { next, overdue } = queues.take(Instant::now());
            // Under the mutex: a ticket that finds its command neither queued nor answered takes it for sent.
            overdue.into_iter().for_each(|command| drop(command.reply.send(Err(NodeError::Overloaded))));
            next
        };
        join_all(batches(next).into_iter().map(|batch| self.send_batch(batch))).await;
    }

    async fn send_batch(self: &Arc<Self>, batch: Vec<QueuedCommand>) {
        let Some(QueuedCommand { script, tag, .. }) = batch.first() else { return };
        let (sent, script, Header { key, packed }) = (Instant::now(), *script, (self.header)(self, *tag));
        let mut args = Vec::with_capacity(1 + batch.len());
        args.push(packed);
        let (mut counts, mut callers) = (Counts::default(), Vec::with_capacity(batch.len()));
        let mut spans = Vec::new();
        for QueuedCommand { lane, packed, reply, span, .. } in batch {
            counts[lane as usize] += 1;
            args.push(packed);
            callers.push(reply);
            spans.extend(span.map(|span| *span));
        }
        self.metrics.batch_size.observe(callers.len() as f64);
        let span = self.traces.batch(callers.len(), spans);
        let in_flight = InFlight { connection: Arc::clone(self), counts };
        let answer = match self.ensure_open() {
            Ok(()) => self.run_command(script, &script.evalsha_packed(&key, &args)).await,
            Err(why) => Err(why),
        };
        if answer.is_err() {
            failed(span.as_ref(), "no answer");
        }
        drop(span);
        drop(in_flight);
        let answer = answer.and_then(|value| replies(value, callers.len()));
        match answer {
            Ok((now, each)) => {
                self.sample(sent, now);
                for (caller, packed) in callers.into_iter().zip(each) {
                    let _ = caller.send(Ok(Reply { sent, now, packed }));
                }
            }
            Err(error) => callers.into_iter().for_each(|caller| drop(caller.send(Err(error.clone())))),
        }
    }
}
