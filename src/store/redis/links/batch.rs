//! Commands that are asked for in the same moment are sent together: with one run of a script, those that are in it.
//!
//! Those of one moment are run in any order: none is a caller's second before its first is answered, and a clean-up may come before what it is
//! for in any case.
//!
//! No timer: whoever asks first has them sent as soon as those who are ready to run have run. A lone command is sent at once. Of commands in bulk
//! ([`Command::in_bulk`]) a few scripts are under way at a time, and the rest stands in line.
//!
//! Tasks of their own do this, because those who asked may go, or may not be polled while their client stalls: nothing that others wait for is
//! theirs to keep.

use super::{
    Command, Link, Script,
    script::{pack_bytes, pack_number},
};
use crate::{
    domain::{ids::ReplicaId, limits::COMMAND_WINDOW, time::StoreTime},
    store::{StoreError, redis::keys},
};
use deadpool_redis::redis::Value;
use futures_util::future::join_all;
use parking_lot::Mutex;
use std::{collections::VecDeque, mem, sync::Arc};
use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

/// Commands in one script: half a millisecond of Redis' time for plain ones, one or two for others, more for polls of very many locks. It does
/// nothing else meanwhile.
pub const COMMANDS_PER_SCRIPT: usize = 32;

/// Scripts of commands in bulk that are under way at once on a link: some milliseconds of Redis' time, so that nobody's command waits for long
/// behind them. With all leases of all streams due at once, and all sent, each would wait for longer than an answer is waited for.
pub const BULK_SCRIPTS: usize = 16;

/// Who asks: what all commands of one sending share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The server replica.
    pub replica: ReplicaId,
    /// How many requests may wait for a lock.
    pub waiters_max: usize,
}

/// What a script answered to one command: the time that it went by, and the rest, packed.
pub type Reply = (StoreTime, Vec<u8>);

#[derive(Debug)]
struct Queued {
    sender: Sender,
    script: &'static Script,
    bucket: u16,
    packed: Vec<u8>,
    reply: oneshot::Sender<Result<Reply, StoreError>>,
}

impl Queued {
    fn goes_with(&self, other: &Self, cluster: bool) -> bool {
        let slot = !cluster || self.bucket == other.bucket;
        std::ptr::eq(self.script, other.script) && self.sender == other.sender && slot
    }
}

/// The commands that are to be sent next.
#[derive(Debug, Default)]
pub(super) struct Line {
    next: Mutex<Vec<Queued>>,
    bulk: Mutex<Bulk>,
}

/// Those in bulk.
#[derive(Debug, Default)]
struct Bulk {
    queued: VecDeque<Queued>,
    /// A task sends them.
    being_sent: bool,
}

/// Commands that go together, script by script.
struct Groups {
    groups: Vec<Vec<Queued>>,
    max: usize,
    cluster: bool,
}

impl Groups {
    /// Takes a command in, or gives it back if that were one script more than there may be.
    fn add(&mut self, queued: Queued) -> Option<Queued> {
        let room = |group: &Vec<Queued>| group.len() < COMMANDS_PER_SCRIPT && group[0].goes_with(&queued, self.cluster);
        match self.groups.iter().position(room) {
            Some(place) => self.groups[place].push(queued),
            None if self.groups.len() < self.max => self.groups.push(vec![queued]),
            None => return Some(queued),
        }
        None
    }
}

/// What the scripts take before their commands.
pub fn head(sender: Sender, incarnation: Uuid, not_after: StoreTime) -> Vec<u8> {
    let mut head = Vec::with_capacity(96);
    pack_bytes(sender.replica.0.as_bytes(), &mut head);
    pack_bytes(incarnation.simple().encode_lower(&mut Uuid::encode_buffer()).as_bytes(), &mut head);
    pack_number(not_after.as_micros(), &mut head);
    pack_number(sender.waiters_max as u64, &mut head);
    pack_bytes(incarnation.as_bytes(), &mut head);
    head
}

/// The reply of a script, command by command.
pub fn replies(value: Value, count: usize) -> Result<(StoreTime, Vec<Vec<u8>>), StoreError> {
    let strange = || StoreError::Corrupt("a script answered something else than it was asked".to_owned());
    let Value::Array(values) = value else { return Err(strange()) };
    let mut values = values.into_iter();
    let Some(Value::Int(now)) = values.next() else { return Err(strange()) };
    let each = values.map(|value| if let Value::BulkString(bytes) = value { Ok(bytes) } else { Err(strange()) });
    let each = each.collect::<Result<Vec<_>, _>>()?;
    let now = StoreTime::from_micros(u64::try_from(now).map_err(|_| strange())?);
    if each.len() == count { Ok((now, each)) } else { Err(strange()) }
}

impl Link {
    /// Has one command run, together with what others ask for in this moment. Dropped before it is done, it may run all the same.
    pub async fn ask(
        self: &Arc<Self>,
        sender: Sender,
        command: &'static Command,
        bucket: u16,
        packed: Vec<u8>,
    ) -> Result<Reply, StoreError> {
        self.open()?;
        let (reply, answer) = oneshot::channel();
        let queued = Queued { sender, script: command.script(), bucket, packed, reply };
        if command.is_bulk() {
            let mut bulk = self.line.bulk.lock();
            bulk.queued.push_back(queued);
            if !mem::replace(&mut bulk.being_sent, true) {
                tokio::spawn(Arc::clone(self).send_bulk());
            }
        } else {
            let mut line = self.line.next.lock();
            line.push(queued);
            if line.len() == 1 {
                tokio::spawn(Arc::clone(self).send_line());
            }
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::OutcomeUnknown("the server is stopping".to_owned())))
    }

    fn groups(&self, max: usize) -> Groups {
        Groups { groups: Vec::with_capacity(2), max, cluster: self.is_cluster() }
    }

    /// Sends what stands in line.
    async fn send_line(self: Arc<Self>) {
        tokio::task::yield_now().await;
        let mut all = self.groups(usize::MAX);
        for queued in mem::take(&mut *self.line.next.lock()) {
            all.add(queued);
        }
        self.send_groups(all).await;
    }

    /// Sends what stands in line in bulk, some after some.
    async fn send_bulk(self: Arc<Self>) {
        loop {
            tokio::task::yield_now().await;
            let mut some = self.groups(BULK_SCRIPTS);
            {
                let mut bulk = self.line.bulk.lock();
                if bulk.queued.is_empty() {
                    bulk.being_sent = false;
                    return;
                }
                while let Some(queued) = bulk.queued.pop_front() {
                    // Nobody waits for it any more: a stream that has ended renews nothing.
                    if queued.reply.is_closed() {
                        continue;
                    }
                    if let Some(queued) = some.add(queued) {
                        bulk.queued.push_front(queued);
                        break;
                    }
                }
            }
            self.send_groups(some).await;
        }
    }

    async fn send_groups(&self, all: Groups) {
        join_all(all.groups.into_iter().map(|group| self.send_group(group))).await;
    }

    async fn send_group(&self, group: Vec<Queued>) {
        let Some(Queued { sender, script, bucket, .. }) = group.first() else { return };
        let (script, key, sent) = (*script, keys::of_bucket(*bucket), Instant::now());
        let mut args = Vec::with_capacity(1 + group.len());
        args.push(head(*sender, self.incarnation().0, self.not_after(COMMAND_WINDOW)));
        let (commands, askers): (Vec<_>, Vec<_>) = group.into_iter().map(|one| (one.packed, one.reply)).unzip();
        args.extend(commands);
        let answer = match self.open() {
            Ok(()) => self.run_command(script, &script.evalsha_packed(&key, &args)).await,
            Err(why) => Err(why),
        };
        let answer = answer.and_then(|value| replies(value, askers.len()));
        match answer {
            Ok((now, each)) => {
                self.sample(sent, now);
                for (asker, reply) in askers.into_iter().zip(each) {
                    let _ = asker.send(Ok((now, reply)));
                }
            }
            Err(error) => askers.into_iter().for_each(|asker| drop(asker.send(Err(error.clone())))),
        }
    }
}
