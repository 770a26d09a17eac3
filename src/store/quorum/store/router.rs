//! The router: passes a command to the leader of its partition, in this server or in another one.

use super::QuorumStore;
use crate::{
    domain::{
        command::Command,
        features::Features,
        limits::{ANSWER_TIME_MAX, COMMAND_WINDOW},
        name::LockName,
        time::StoreTime,
    },
    store::{
        Answer, StoreError, Timed,
        partition::HashedName,
        quorum::{
            membership::known::Known,
            nodes::client::NodeClient,
            paxos::ballot::{Ballot, LeadId},
            proposer::{
                delivery::{Confirmed, Exit, ReplyTo},
                leading::{Job, Lead},
                local_waiters::QueuePosition,
                route::Route,
            },
            rpc::{
                messages::{Done, Refusal, Work},
                transport::Forwarded,
            },
        },
    },
};
use std::{iter::once, pin::pin};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

/// A command that a leader was given, and that no majority is known to have yet.
pub(super) enum Given<'a> {
    /// This server leads.
    Here(oneshot::Receiver<Result<Confirmed, Refusal>>),
    /// Another server leads, which was sent the command at this time.
    There(Known, Instant, Forwarded<'a>),
}

/// Why work was not done at a leader.
#[derive(Clone)]
pub(super) enum NotDone {
    /// Certainly nothing was done, and another leader may do it in a moment.
    NotThere(StoreError),
    /// To be told to the caller.
    Fails(StoreError),
}

impl<C: NodeClient> QuorumStore<C> {
    /// Executes a command, and waits until a majority has its batch. Where nobody leads, or somebody else than this
    /// server thought, it waits for the leader.
    pub(super) async fn execute(&self, name: &LockName, command: &Command) -> Answer {
        let route = self.route(name);
        let confirmed = match self.execute_once(name, route, command).await {
            Err(NotDone::NotThere(_)) => Box::pin(self.execute_at_next_leader(name, route, command)).await,
            done => done.map_err(Into::into),
        };
        let Confirmed { outcome: Timed { sent, outcome }, queue_position } =
            confirmed.map_err(|why| self.explained(why, once(route.partition)))?;
        self.note_outcome(route.partition, name, command, (&outcome, queue_position));
        Ok(Timed { sent, outcome })
    }

    /// The same error with what is wrong with the nodes, if so few are left that no majority can answer, for one of
    /// these partitions.
    pub(super) fn explained(
        &self,
        error: StoreError,
        mut partitions: impl Iterator<Item = usize> + Clone,
    ) -> StoreError {
        let no_majority = self.driver.health.no_majority(&self.driver.mark.members, &partitions);
        let forgotten = || partitions.find_map(|partition| self.forgotten(partition));
        let Some(why) = no_majority.or_else(forgotten) else { return error };
        match error {
            StoreError::Unavailable(text) => StoreError::Unavailable(format!("{text}; {why}")),
            StoreError::OutcomeUnknown(text) => StoreError::OutcomeUnknown(format!("{text}; {why}")),
            other => other,
        }
    }

    /// Waits for a leader, for a command that none was there for.
    pub(super) async fn execute_at_next_leader(
        &self,
        name: &LockName,
        route: Route,
        command: &Command,
    ) -> Result<Confirmed, StoreError> {
        let until = Instant::now() + ANSWER_TIME_MAX;
        loop {
            let mut led_anew = pin!(self.parts.led_anew.notified());
            led_anew.as_mut().enable();
            let why = match self.execute_once(name, route, command).await {
                Err(NotDone::NotThere(why)) => why,
                done => return Ok(done?),
            };
            if timeout_at(until, led_anew).await.is_err() {
                return Err(why);
            }
        }
    }

    async fn execute_once(&self, name: &LockName, route: Route, command: &Command) -> Result<Confirmed, NotDone> {
        let since = Instant::now();
        let Route { partition, hash } = route;
        let needs = Features::of(command);
        self.require_of_all(needs)?;
        let submit = |lead: &mut Lead, now, exit: &Exit<'_>| self.submit(lead, now, exit, (name, hash, command));
        let given = match self.at_lead(partition, since, submit)? {
            Some(here) => {
                self.driver.submitted(1);
                here
            }
            None => self.send(partition, self.leader_with(partition, needs)?, name, command),
        };
        self.confirmed(partition, given, since + ANSWER_TIME_MAX).await
    }

    /// Acts on this server's own lead of a partition, for work that began at `since`. `None` if it has none.
    pub(super) fn at_lead<R>(
        &self,
        partition: usize,
        since: Instant,
        act: impl FnOnce(&mut Lead, StoreTime, &Exit<'_>) -> R,
    ) -> Result<Option<R>, NotDone> {
        let mut proposer = self.parts[partition].proposer.lock();
        let exit = self.exit_since(partition, since);
        // Read under the mutex: within a partition, time never goes back.
        let now = self.clock.now();
        let Some(lead) = proposer.lead() else { return Ok(None) };
        match lead.refusal(now) {
            Some(why) => Err(not_done(why)),
            None => Ok(Some(act(lead, now, &exit))),
        }
    }

    /// Gives a command to this server's own lead. The nodes are not woken.
    pub(super) fn submit(
        &self,
        lead: &mut Lead,
        now: StoreTime,
        exit: &Exit<'_>,
        (name, hash, command): (&LockName, u64, &Command),
    ) -> Given<'_> {
        let (reply, outcome) = oneshot::channel();
        let (from, not_after) = (self.delivery.me, lead.time(now).after(COMMAND_WINDOW));
        let (lock, reply_to) = (HashedName { name: name.clone(), hash }, ReplyTo::Caller(reply, exit.since));
        lead.submit(Job { lock, command: command.clone(), from, not_after, reply_to }, now, exit);
        Given::Here(outcome)
    }

    /// Sends a command to another server that leads.
    pub(super) fn send(&self, partition: usize, known: Known, name: &LockName, command: &Command) -> Given<'_> {
        // What a lease has left counts from before the frame leaves.
        let sent = Instant::now();
        Given::There(known, sent, self.begin_to_forward(partition, known, Work::Run(name.clone(), command.clone())))
    }

    /// Waits until a majority has what a leader was given.
    pub(super) async fn confirmed(
        &self,
        partition: usize,
        given: Given<'_>,
        until: Instant,
    ) -> Result<Confirmed, NotDone> {
        match given {
            Given::Here(outcome) => match timeout_at(until, outcome).await {
                Ok(Ok(confirmed)) => confirmed.map_err(not_done),
                // The leader is dropped only with this store.
                Ok(Err(_)) => Err(not_done(Refusal::Deposed)),
                Err(_) => {
                    let who = if self.has_one_node() {
                        "Redis did not confirm it"
                    } else {
                        "no majority of the nodes confirmed it"
                    };
                    Err(NotDone::Fails(StoreError::OutcomeUnknown(format!("{who} within {ANSWER_TIME_MAX:?}"))))
                }
            },
            Given::There(known, sent, forwarded) => match self.reply(partition, known, forwarded, until).await? {
                Done::Outcome { outcome, queue_position: number, ahead } => {
                    let queue_position = QueuePosition { ballot: known.ballot, number, ahead };
                    Ok(Confirmed { outcome: Timed { sent, outcome }, queue_position })
                }
                other => Err(strange(&other)),
            },
        }
    }

    /// The other server that leads a partition.
    pub(super) fn leader_of(&self, partition: usize) -> Result<Known, NotDone> {
        (*self.parts[partition].leader.lock()).ok_or_else(|| NotDone::NotThere(no_leader()))
    }

    /// The other server that leads a partition, if it has told that it understands this.
    fn leader_with(&self, partition: usize, needs: Features) -> Result<Known, NotDone> {
        let known = self.leader_of(partition)?;
        if needs.is_none() || needs.are_among(self.membership.election.lock().told(known.ballot.server)) {
            return Ok(known);
        }
        // Its heartbeat has not come yet, or it does not live any more.
        Err(NotDone::NotThere(no_leader()))
    }

    /// Refuses what some living server does not understand: it could not lead the partition after the leader.
    fn require_of_all(&self, needs: Features) -> Result<(), NotDone> {
        if needs.is_none() {
            return Ok(());
        }
        let (lacking, all) = self.membership.election.lock().lacking(needs, Instant::now());
        if lacking == 0 {
            return Ok(());
        }
        Err(NotDone::Fails(StoreError::NotAllServers { feature: needs.names(), lacking, all }))
    }

    /// Forwards some work to another server, the leader of a partition.
    pub(super) async fn forward(&self, partition: usize, known: Known, work: Work) -> Result<Done, NotDone> {
        let until = Instant::now() + ANSWER_TIME_MAX;
        self.reply(partition, known, self.begin_to_forward(partition, known, work), until).await
    }

    fn begin_to_forward(&self, partition: usize, known: Known, work: Work) -> Forwarded<'_> {
        let lead = LeadId { partition: u16::try_from(partition).unwrap_or(u16::MAX), ballot: known.ballot };
        let not_after = known.at(self.clock.now()).after(COMMAND_WINDOW);
        self.delivery.transport.forward(known.ballot.server, lead, not_after, work)
    }

    /// Waits for the reply to what was forwarded.
    async fn reply(
        &self,
        partition: usize,
        known: Known,
        forwarded: Forwarded<'_>,
        until: Instant,
    ) -> Result<Done, NotDone> {
        match timeout_at(until, forwarded.reply()).await {
            Ok(Some((now, result))) => {
                self.note_time(partition, known.ballot, now);
                if result == Err(Refusal::NotLeader) {
                    self.forget_leader(partition, known.ballot);
                }
                result.map_err(not_done)
            }
            Ok(None) => {
                self.forget_leader(partition, known.ballot);
                Err(NotDone::NotThere(no_leader()))
            }
            Err(_) => {
                self.delivery.transport.unanswered(known.ballot.server, self.driver.nodes());
                Err(NotDone::Fails(StoreError::OutcomeUnknown(format!(
                    "the leader of this lock's partition did not answer within {ANSWER_TIME_MAX:?}"
                ))))
            }
        }
    }

    /// What a leader's reply says of the partition's time.
    fn note_time(&self, partition: usize, ballot: Ballot, time: StoreTime) {
        let heard = self.clock.now();
        if let Some(known) = &mut *self.parts[partition].leader.lock()
            && known.ballot == ballot
            && known.at(heard) < time
        {
            (known.time, known.heard) = (time, heard);
        }
    }

    /// The server that was taken for the leader does not lead by this ballot.
    fn forget_leader(&self, partition: usize, ballot: Ballot) {
        self.parts[partition].leader.lock().take_if(|known| known.ballot == ballot);
    }
}

fn not_done(why: Refusal) -> NotDone {
    match why {
        Refusal::NotLeader => NotDone::NotThere(no_leader()),
        Refusal::TooLate => NotDone::Fails(StoreError::TooLate),
        Refusal::Unheard => NotDone::Fails(unheard()),
        Refusal::Overloaded => NotDone::Fails(StoreError::Overloaded),
        Refusal::Deposed => {
            NotDone::Fails(StoreError::OutcomeUnknown("the leader of this lock's partition lost the lead".to_owned()))
        }
    }
}

impl From<NotDone> for StoreError {
    fn from(why: NotDone) -> Self {
        match why {
            NotDone::NotThere(why) | NotDone::Fails(why) => why,
        }
    }
}

pub(super) fn strange(done: &Done) -> NotDone {
    NotDone::Fails(StoreError::Corrupt(format!("another server sent an unexpected answer: {done:?}")))
}

pub(super) fn no_leader() -> StoreError {
    StoreError::Unavailable("no server leads the partition of this lock".to_owned())
}

pub(super) fn unheard() -> StoreError {
    StoreError::Unavailable("the store does not answer the leader of this lock's partition".to_owned())
}
