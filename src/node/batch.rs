//! Commands that are asked for in the same moment are sent together: with one run of a script, those that are in it.
//!
//! Those of one moment are run in any order: none is a caller's second before its first is answered.
//!
//! No timer: whoever asks first has them sent as soon as those who are ready to run have run. A lone command is sent at
//! once; where too many are under way they stand in line ([`Lane`]).
//!
//! Tasks of their own do this, because those who asked may go, or may not be polled while their client stalls: nothing
//! that others wait for is theirs to keep.

use super::{
    Command, Lane, Link, NodeError, Script,
    lane::{Counts, Lines, Taken},
};
use crate::domain::time::StoreTime;
use deadpool_redis::redis::Value;
use futures_util::future::{Pending, join_all, pending};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{runtime::Handle, sync::oneshot, time::Instant};

/// Commands in one script: half a millisecond of Redis' time for plain ones, one or two for others, more for polls of
/// very many locks. It does nothing else meanwhile.
pub const COMMANDS_PER_SCRIPT: usize = 32;

/// What a script takes before the commands of a batch.
#[derive(Debug, Default)]
pub struct Header {
    /// Its key, for the rights of the user and for proxies that route by it.
    pub key: String,
    /// Its first argument, packed.
    pub packed: Vec<u8>,
}

/// Makes the header of a batch.
pub(super) type MakeHeader = Arc<dyn Fn(&Link, u16) -> Header + Send + Sync>;

/// Whoever asks for a command.
#[derive(Debug)]
pub struct Asker<F> {
    /// Resolves when the command is not wanted any more, if it has not been sent by then.
    stop: F,
    stopped: bool,
    /// The command has left, and nobody has heard what came of it.
    pub unheard: bool,
}

impl Asker<Pending<()>> {
    /// One that stands in line for as long as may be.
    pub fn patient() -> Self {
        Self::until(pending())
    }
}

impl<F: Future<Output = ()> + Unpin> Asker<F> {
    /// One that stands in line until then.
    pub fn until(stop: F) -> Self {
        Self { stop, stopped: false, unheard: false }
    }

    /// Whether it does not want the command any more.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }
}

/// What a script answered to one command.
#[derive(Debug)]
pub struct Reply {
    /// When it was sent.
    pub sent: Instant,
    /// The time that it went by.
    pub now: StoreTime,
    /// The rest, packed.
    pub packed: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Queued {
    lane: Lane,
    script: &'static Script,
    number: u16,
    packed: Vec<u8>,
    reply: oneshot::Sender<Answer>,
}

type Answer = Result<Reply, NodeError>;

impl Queued {
    fn goes_with(&self, other: &Self) -> bool {
        std::ptr::eq(self.script, other.script)
    }
}

/// The place of a command in its line, for as long as whoever asked for it is there.
struct Place<'a> {
    lines: &'a Mutex<Lines<Queued>>,
    lane: Lane,
    number: u64,
    answer: oneshot::Receiver<Answer>,
    unheard: &'a mut bool,
    /// The answer was heard, or there will be none.
    over: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let nothing_done = |answer: Answer| answer.is_err_and(|error| error.is_nothing_done());
        if !self.over
            // mutant: cleanup after what was never sent
            && !self.lines.lock().withdraw(self.lane, self.number)
        {
            *self.unheard = !self.answer.try_recv().is_ok_and(nothing_done);
        }
    }
}

/// Commands that are under way, for as long as they are: dropped, they make room for others.
struct UnderWay {
    link: Arc<Link>,
    counts: Counts,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut lines = self.link.lines.lock();
        lines.answered(self.counts);
        self.link.have_served(&mut lines);
    }
}

/// Puts together what goes together, script by script.
fn groups(commands: Vec<Queued>) -> Vec<Vec<Queued>> {
    let mut groups: Vec<Vec<Queued>> = Vec::with_capacity(2);
    for queued in commands {
        let room = |group: &Vec<Queued>| group.len() < COMMANDS_PER_SCRIPT && group[0].goes_with(&queued);
        match groups.iter().position(room) {
            Some(place) => groups[place].push(queued),
            None => groups.push(vec![queued]),
        }
    }
    groups
}

/// The reply of a script, command by command.
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

impl Link {
    /// Has one command run, together with what others ask for in this moment; it may stand in line before. Not sent for
    /// [`IN_LINE_MAX`](super::IN_LINE_MAX), or behind others when its asker says stop, it is `Overloaded`.
    ///
    /// Dropped before it is sent, it is not sent. Dropped later it may run, and nobody hears what came of it: the asker
    /// is told.
    pub async fn ask<F: Future<Output = ()> + Unpin>(
        self: &Arc<Self>,
        command: &'static Command,
        number: u16,
        packed: Vec<u8>,
        asker: &mut Asker<F>,
    ) -> Result<Reply, NodeError> {
        self.open()?;
        let (reply, answer) = oneshot::channel();
        let lane = command.lane();
        let queued = Queued { lane, script: command.script(), number, packed, reply };
        let place = {
            let mut lines = self.lines.lock();
            let place = lines.enter(lane, Instant::now(), queued);
            self.have_served(&mut lines);
            place
        };
        let Asker { stop, stopped, unheard } = asker;
        let mut place = Place { lines: &self.lines, lane, number: place, answer, unheard, over: false };
        let answer = tokio::select! {
            biased;
            answer = &mut place.answer => answer,
            // mutant: stands in line for ever
            () = stop, if !*stopped => {
                *stopped = true;
                if self.lines.lock().withdraw_from_behind(lane, place.number) {
                    place.over = true;
                    return Err(NodeError::Overloaded);
                }
                (&mut place.answer).await
            }
        };
        place.over = true;
        answer.unwrap_or_else(|_| Err(NodeError::OutcomeUnknown("the server is stopping".to_owned())))
    }

    /// Has a task send what stands in line, if some of it may be sent.
    fn have_served(self: &Arc<Self>, lines: &mut Lines<Queued>) {
        // Without a runtime there is nobody to serve.
        if lines.is_to_be_served()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(Arc::clone(self).serve());
        }
    }

    async fn serve(self: Arc<Self>) {
        tokio::task::yield_now().await;
        let next = {
            let mut lines = self.lines.lock();
            let Taken { next, overdue } = lines.take(Instant::now());
            // Before anybody can find one of them neither in line nor answered, and take it for sent.
            overdue.into_iter().for_each(|queued| drop(queued.reply.send(Err(NodeError::Overloaded))));
            next
        };
        join_all(groups(next).into_iter().map(|group| self.send_group(group))).await;
    }

    async fn send_group(self: &Arc<Self>, group: Vec<Queued>) {
        let Some(Queued { script, number, .. }) = group.first() else { return };
        let (script, Header { key, packed }, sent) = (*script, (self.header)(self, *number), Instant::now());
        let mut args = Vec::with_capacity(1 + group.len());
        args.push(packed);
        let (mut counts, mut askers) = (Counts::default(), Vec::with_capacity(group.len()));
        for Queued { lane, packed, reply, .. } in group {
            counts[lane as usize] += 1;
            args.push(packed);
            askers.push(reply);
        }
        let under_way = UnderWay { link: Arc::clone(self), counts };
        let answer = match self.open() {
            Ok(()) => self.run_command(script, &script.evalsha_packed(&key, &args)).await,
            Err(why) => Err(why),
        };
        drop(under_way);
        let answer = answer.and_then(|value| replies(value, askers.len()));
        match answer {
            Ok((now, each)) => {
                self.sample(sent, now);
                for (asker, packed) in askers.into_iter().zip(each) {
                    let _ = asker.send(Ok(Reply { sent, now, packed }));
                }
            }
            Err(error) => askers.into_iter().for_each(|asker| drop(asker.send(Err(error.clone())))),
        }
    }
}
