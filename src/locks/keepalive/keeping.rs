//! The leases that one stream keeps alive, and its outgoing messages.

use super::{
    AttachLease, DetachReason, FromClient, Group, Inbox, StreamError, StreamNotice, ToClient, attachment_id, ended,
    expected::Expected, handle_of, measured::Measured, pace::Pace, restricted::Restricted,
};
use crate::{
    domain::{
        command::Command,
        ids::{AttachmentId, LeaseId},
        lease::LeaseEnd,
        limits::{HANDLES_PER_MESSAGE, TTL_UNKNOWN},
        name::LockName,
        outcome::{Fate, RenewOutcome},
    },
    locks::{Hub, Locks, Permission, measure},
    store::Store,
    telemetry::metrics::{Renewal, StreamKind},
};
use hashbrown::HashMap;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The most leases that are renewed, reported or revoked in one step: about a millisecond of work.
const LEASES_AT_ONCE: usize = 1_024;
/// The most leases that one answer checks besides those that are due. Few, because all streams of a server check in the
/// same seconds.
const ASKED_AT_ONCE: usize = 128;

/// A lease that the stream keeps.
pub(super) struct Lease {
    pub(super) name: LockName,
    lease_id: LeaseId,
    attachment: AttachmentId,
    attempt: u32,
    ttl: Duration,
    due: Instant,
    /// Since when the stream keeps it.
    since: Instant,
    /// Whether the store has confirmed the attachment. If not, the next answer attaches it again.
    attached: bool,
    release_on_disconnect: bool,
}

impl Lease {
    /// The command that renews it.
    fn renewal(&self) -> (&LockName, Command) {
        let Self { name, lease_id, attachment, attempt, attached, .. } = self;
        let (lease_id, attempt, attachment) = (*lease_id, *attempt, *attachment);
        let command = if *attached {
            Command::RenewKept(lease_id, attachment)
        } else {
            Command::Attach { lease_id, attempt, attachment }
        };
        (name, command)
    }
}

/// The leases of one stream. Dropped, the stream is over. `M` is the type of its messages.
pub(in crate::locks) struct Keeping<S: Store, M> {
    store: Arc<S>,
    hub: Arc<Hub>,
    inbox: Arc<Inbox>,
    pub(super) leases_max: usize,
    /// The higher half of the ids of its attachments.
    stream: u64,
    attachments: u32,
    pub(super) leases: HashMap<u32, Lease>,
    by_id: HashMap<LeaseId, u32>,
    pub(super) expected: HashMap<u32, Expected>,
    pub(super) pace: Pace,
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) last_beat_at: Instant,
    pub(super) restricted: Restricted,
    pub(in crate::locks) outgoing: VecDeque<M>,
    /// Leases that the answer to this beat found due, still to be renewed.
    to_renew: (u64, VecDeque<u32>),
    /// Leases that the next answers check, a few each, because a notice of their end may have been lost.
    to_ask: VecDeque<u32>,
    gone: CancellationToken,
    pub(super) measured: Measured,
}

impl<S: Store, M: From<ToClient>> Keeping<S, M> {
    pub(in crate::locks) fn open(locks: &Locks<S>, kind: StreamKind, permission: Option<Arc<dyn Permission>>) -> Self {
        let stream = Uuid::new_v4().as_u64_pair().0;
        let mut keeping = Self {
            store: locks.store.clone(),
            hub: locks.hub.clone(),
            inbox: locks.hub.open(stream),
            leases_max: locks.limits.leases_per_stream,
            stream,
            attachments: 0,
            leases: HashMap::new(),
            by_id: HashMap::new(),
            expected: HashMap::new(),
            pace: Pace::default(),
            sent: 0,
            answered: 0,
            last_beat_at: Instant::now(),
            restricted: Restricted::new(permission, Instant::now()),
            outgoing: VecDeque::new(),
            to_renew: (0, VecDeque::new()),
            to_ask: VecDeque::new(),
            gone: locks.going.gone.clone(),
            measured: Measured::open(locks.metrics.clone(), kind),
        };
        // The first beat tells the client that the stream is open.
        keeping.beat(keeping.last_beat_at);
        keeping
    }

    pub(in crate::locks) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(in crate::locks) fn say(&mut self, message: ToClient) {
        self.outgoing.push_back(message.into());
    }

    /// Passes on notices of the store, at most a batch of them.
    pub(in crate::locks) fn take_notices(&mut self) {
        for (attachment, notice) in self.inbox.take(LEASES_AT_ONCE) {
            let handle = handle_of(attachment);
            // The client has detached this lease since, so it needs no notice.
            if self.leases.get(&handle).is_none_or(|lease| lease.attachment != attachment) {
                if let Some(expected) = self.expected.get_mut(&handle).filter(|it| it.attachment == attachment) {
                    expected.early.push(notice);
                }
                continue;
            }
            self.notice(handle, notice);
        }
    }

    /// Passes on a notice about a lease that the stream keeps.
    pub(super) fn notice(&mut self, handle: u32, notice: StreamNotice) {
        let message = match notice {
            StreamNotice::Ended(end) => {
                let since = self.remove(handle).map(|lease| lease.since);
                self.measured.ended(since, Fate::Ended(end), self.sent);
                ToClient::Lost { handle, gone: ended(end) }
            }
            StreamNotice::AttachedElsewhere => {
                self.remove(handle);
                ToClient::Detached { handle, reason: DetachReason::AttachedElsewhere }
            }
            StreamNotice::Wanted(mode) => ToClient::Wanted { handle, mode },
        };
        self.say(message);
    }

    /// Stops renewing a lease that is about to be released.
    pub(in crate::locks) fn give_back(&mut self, lease_id: LeaseId) {
        if let Some(handle) = self.by_id.get(&lease_id) {
            let since = self.remove(*handle).map(|lease| lease.since);
            self.measured.ended(since, Fate::Ended(LeaseEnd::Released), self.sent);
        }
    }

    pub(super) fn is_in_use(&self, handle: u32) -> bool {
        self.leases.contains_key(&handle) || self.expected.contains_key(&handle)
    }

    pub(super) fn next_attachment(&mut self, handle: u32) -> AttachmentId {
        self.attachments = self.attachments.wrapping_add(1);
        attachment_id(self.stream, self.attachments, handle)
    }

    /// Adds a lease that had `ttl` left at `at`.
    pub(super) fn insert(
        &mut self,
        lease: AttachLease,
        attachment: AttachmentId,
        ttl: Duration,
        attached: bool,
        at: Instant,
    ) {
        let AttachLease { handle, name, lease_id, attempt, release_on_disconnect } = lease;
        let due = self.pace.add(handle, ttl, at);
        self.by_id.insert(lease_id, handle);
        let lease = Lease { name, lease_id, attachment, attempt, ttl, due, since: at, attached, release_on_disconnect };
        self.leases.insert(handle, lease);
        self.restricted.keeps(self.leases.len());
        self.measured.added();
    }

    /// Handles a message. Dropped on the way, commands to the store may or may not be done; `Drop` knows all leases
    /// that it may have attached.
    pub(in crate::locks) async fn receive(&mut self, message: FromClient) -> Result<(), StreamError> {
        match message {
            FromClient::Attach(leases) => self.attach(leases).await,
            FromClient::Detach(handles) => {
                for part in handles.chunks(LEASES_AT_ONCE) {
                    for handle in part.iter().copied() {
                        if let Some(lease) = self.remove(handle) {
                            self.store.post(&lease.name, Command::Detach(lease.lease_id, lease.attachment));
                            self.say(ToClient::Detached { handle, reason: DetachReason::Requested });
                        }
                    }
                    if part.len() == LEASES_AT_ONCE {
                        tokio::task::yield_now().await;
                    }
                }
                Ok(())
            }
            FromClient::Answer(beat) => self.answer(beat).await,
        }
    }

    async fn attach(&mut self, leases: Vec<AttachLease>) -> Result<(), StreamError> {
        let mut handles = Vec::with_capacity(leases.len());
        for lease in leases {
            let handle = lease.handle;
            if self.is_in_use(handle) {
                return Err(StreamError::HandleInUse(handle));
            }
            if !self.has_room() {
                self.say(ToClient::Detached { handle, reason: DetachReason::StreamFull });
                continue;
            }
            let attachment = self.next_attachment(handle);
            // Its TTL is not known before the store answers. If the store does not, the next answer to a beat tries
            // again.
            self.insert(lease, attachment, TTL_UNKNOWN, false, Instant::now());
            handles.push(handle);
        }
        let groups = self.renew(&handles).await;
        self.say_groups(groups, ToClient::Attached);
        Ok(())
    }

    async fn answer(&mut self, beat: u64) -> Result<(), StreamError> {
        if beat > self.sent || beat == 0 {
            return Err(StreamError::BeatNotSent(beat));
        }
        if beat < self.answered {
            return Err(StreamError::BeatBackwards { beat, answered: self.answered });
        }
        self.answered = beat;
        self.measured.answered(beat);
        let now = Instant::now();
        let is_due = |handle: &u32| self.leases.get(handle).is_some_and(|lease| lease.due <= now);
        // mutant: lost word of an end
        if self.inbox.take_lack() {
            self.to_ask = self.pace.all().collect();
        } else {
            // What an earlier answer has left over is due still, and found again below, but for those that it asked for
            // besides.
            let left = self.to_renew.1.iter().rev().filter(|handle| !is_due(handle));
            left.for_each(|handle| self.to_ask.push_front(*handle));
        }
        let mut to_renew: VecDeque<u32> = self.pace.due(now).collect();
        let besides = self.to_ask.len().min(ASKED_AT_ONCE);
        to_renew.extend(self.to_ask.drain(..besides).filter(|handle| !is_due(handle)));
        self.to_renew = (beat, to_renew);
        self.renew_some().await;
        Ok(())
    }

    /// Whether the last answer has leases left to renew.
    pub(in crate::locks) fn is_renewing(&self) -> bool {
        !self.to_renew.1.is_empty()
    }

    /// Renews a part of the leases that the last answer found due. A stream may have very many leases; between two
    /// parts it beats, reads, and reports.
    pub(in crate::locks) async fn renew_some(&mut self) {
        let beat = self.to_renew.0;
        let part = self.to_renew.1.len().min(LEASES_AT_ONCE);
        let known = self.to_renew.1.drain(..part).filter(|handle| self.leases.contains_key(handle)).collect::<Vec<_>>();
        let was_late = self.measured.is_late(beat);
        let renewed = self.renew(&known).await;
        self.measured.renewed(beat, was_late);
        self.say_groups(renewed, |leases| ToClient::Renewed { beat, leases });
    }

    /// Renews leases, and attaches those that are not attached yet. Reports failures, and returns the renewed leases by
    /// time left.
    pub(super) async fn renew(&mut self, handles: &[u32]) -> Vec<Group> {
        if handles.is_empty() {
            return Vec::new();
        }
        let asked = Instant::now();
        let (handles, mut at_risk) = self.only_permitted(handles, asked);
        let renewals =
            handles.iter().filter_map(|handle| self.leases.get(handle)).map(Lease::renewal).collect::<Vec<_>>();
        let answers = self.store.renew_each(renewals).await;
        debug_assert_eq!(answers.len(), handles.len(), "the store answers each");
        let mut groups: HashMap<Duration, Vec<u32>> = HashMap::new();
        for (handle, answer) in handles.iter().copied().zip(answers) {
            match answer.and_then(|answer| Ok(answer.of::<RenewOutcome>()?.outcome)) {
                Ok(RenewOutcome::Renewed(renewed)) => {
                    self.measured.renewal(Renewal::Renewed);
                    self.renewed(handle, renewed.ttl, asked);
                    groups.entry(renewed.left).or_default().push(handle);
                }
                Ok(RenewOutcome::Lost(gone)) => {
                    let kept = self.remove(handle).filter(|lease| lease.attached);
                    self.measured.renewal(measure::lost(gone.fate, kept.is_some()));
                    self.measured.ended(kept.map(|lease| lease.since), gone.fate, self.sent);
                    self.say(ToClient::Lost { handle, gone });
                }
                Ok(RenewOutcome::AttachedElsewhere) => {
                    self.remove(handle);
                    self.say(ToClient::Detached { handle, reason: DetachReason::AttachedElsewhere });
                }
                Err(error) => {
                    tracing::debug!(handle, %error, "renewal did not get through");
                    self.retry_at_once(handle, asked);
                    at_risk.push(handle);
                }
            }
        }
        for handles in at_risk.chunks(HANDLES_PER_MESSAGE) {
            self.say(ToClient::AtRisk(handles.to_vec()));
        }
        groups.into_iter().map(|(left, handles)| Group { left, handles }).collect()
    }

    fn renewed(&mut self, handle: u32, ttl: Duration, at: Instant) {
        let Some(lease) = self.leases.get_mut(&handle) else { return };
        self.pace.remove(handle, lease.ttl, lease.due);
        lease.ttl = ttl;
        lease.due = self.pace.add(handle, ttl, at);
        lease.attached = true;
    }

    /// It was not renewed: the next answer tries again.
    pub(super) fn retry_at_once(&mut self, handle: u32, now: Instant) {
        self.measured.renewal(Renewal::Failed);
        let Some(lease) = self.leases.get_mut(&handle) else { return };
        self.pace.remove(handle, lease.ttl, lease.due);
        lease.due = self.pace.add(handle, lease.ttl, now.checked_sub(lease.ttl).unwrap_or(now));
    }

    fn remove(&mut self, handle: u32) -> Option<Lease> {
        let lease = self.leases.remove(&handle)?;
        // A lease attached under two handles is found by the later one.
        if self.by_id.get(&lease.lease_id) == Some(&handle) {
            self.by_id.remove(&lease.lease_id);
        }
        self.pace.remove(handle, lease.ttl, lease.due);
        self.restricted.keeps(self.leases.len());
        self.measured.removed();
        Some(lease)
    }

    pub(super) fn say_groups(&mut self, groups: Vec<Group>, message: impl Fn(Vec<Group>) -> ToClient) {
        for Group { left, handles } in groups {
            for handles in handles.chunks(HANDLES_PER_MESSAGE) {
                self.say(message(vec![Group { left, handles: handles.to_vec() }]));
            }
        }
    }
}

impl<S: Store, M> Drop for Keeping<S, M> {
    fn drop(&mut self) {
        let (hub, stream, store) = (self.hub.clone(), self.stream, self.store.clone());
        // Last: when no stream is open, a drain goes on, and ends what it takes for streams that do not end themselves.
        let close = move || hub.close(stream);
        // The server ended the stream: it revokes no lease for that. If it drains, it may not have told the stream.
        if self.gone.is_cancelled() || self.restricted.is_over() {
            return close();
        }
        let leases = std::mem::take(&mut self.leases);
        let mut opted_in = leases.into_values().filter(|lease| lease.release_on_disconnect).peekable();
        let mut some = move || {
            for lease in opted_in.by_ref().take(LEASES_AT_ONCE) {
                store.post(&lease.name, Command::Disconnect(lease.lease_id, lease.attachment));
            }
            opted_in.peek().is_some()
        };
        if !some() {
            return close();
        }
        // In batches, so that a stream with very many leases does not block others.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                while some() {
                    tokio::task::yield_now().await;
                }
                close();
            })),
            Err(_) => {
                while some() {}
                close();
            }
        }
    }
}
