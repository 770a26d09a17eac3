//! The state of one KeepAlive stream.

use super::{
    AttachLease, DetachReason, FromClient, Group, Inbox, StreamError, StreamNotice, ToClient, ended,
    pace::{Pace, Place},
};
use crate::{
    domain::{
        ids::{AttachmentId, LeaseId},
        limits::{BEATS_UNANSWERED_MAX, HANDLES_PER_MESSAGE, TTL_DEFAULT},
        name::LockName,
        outcome::RenewOutcome,
    },
    locks::{Hub, Locks},
    store::{Kept, LockStore, StoreError},
};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{runtime::Handle, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Leases that are renewed, told of, or taken back in one go: about a millisecond of work.
const LEASES_AT_ONCE: usize = 1_024;

/// A lease that the stream keeps.
struct Lease {
    name: LockName,
    place: Place,
    lease_id: LeaseId,
    attachment: AttachmentId,
    attempt: u32,
    ttl: Duration,
    due: Instant,
    /// Whether the store has said that it is attached. If not, the next answer attaches it.
    attached: bool,
    release_on_disconnect: bool,
}

impl Lease {
    fn kept(&self) -> Kept<'_> {
        Kept { name: &self.name, lease_id: self.lease_id, attachment: self.attachment, attempt: self.attempt }
    }
}

/// The state of one stream. Dropped, the stream is over.
pub(super) struct Session<S: LockStore> {
    store: Arc<S>,
    hub: Arc<Hub>,
    inbox: Arc<Inbox>,
    leases_max: usize,
    /// The higher half of the ids of its attachments.
    stream: u64,
    attachments: u32,
    leases: HashMap<u32, Lease>,
    pace: Pace,
    sent: u64,
    answered: u64,
    last_beat_at: Instant,
    outgoing: VecDeque<ToClient>,
    /// Found due by the answer to this beat, and still to be renewed.
    to_renew: (u64, VecDeque<u32>),
    gone: CancellationToken,
}

impl<S: LockStore> Session<S> {
    pub(super) fn open(locks: &Locks<S>) -> Self {
        let stream = Uuid::new_v4().as_u64_pair().0;
        let mut session = Self {
            store: locks.store.clone(),
            hub: locks.hub.clone(),
            inbox: locks.hub.open(stream),
            leases_max: locks.limits.leases_per_stream,
            stream,
            attachments: 0,
            leases: HashMap::new(),
            pace: Pace::default(),
            sent: 0,
            answered: 0,
            last_beat_at: Instant::now(),
            outgoing: VecDeque::new(),
            to_renew: (0, VecDeque::new()),
            gone: locks.going.gone.clone(),
        };
        // The first beat tells the client that the stream stands.
        session.beat(session.last_beat_at);
        session
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(super) fn next_message(&mut self) -> Option<ToClient> {
        self.outgoing.pop_front()
    }

    pub(super) fn say(&mut self, message: ToClient) {
        self.outgoing.push_back(message);
    }

    pub(super) fn next_beat_at(&self) -> Instant {
        self.last_beat_at + self.pace.period()
    }

    /// Sends a beat, unless the client is too far behind with its answers.
    pub(super) fn beat(&mut self, now: Instant) {
        self.last_beat_at = now;
        if self.sent - self.answered < BEATS_UNANSWERED_MAX {
            self.sent += 1;
            self.say(ToClient::Beat { beat: self.sent, next_in: self.pace.period() });
        }
    }

    /// Passes on what the store told: a part of it, if it is very much.
    pub(super) fn take_notices(&mut self) {
        for (attachment, notice) in self.inbox.take(LEASES_AT_ONCE) {
            let handle = handle_of(attachment);
            // Of an attachment that this stream has given up since, the client needs to know nothing more.
            if self.leases.get(&handle).is_none_or(|lease| lease.attachment != attachment) {
                continue;
            }
            self.remove(handle);
            self.say(match notice {
                StreamNotice::Ended(end) => ToClient::Lost { handle, gone: ended(end) },
                StreamNotice::AttachedElsewhere => {
                    ToClient::Detached { handle, reason: DetachReason::AttachedElsewhere }
                }
            });
        }
    }

    /// Does what the client says. Dropped on the way, commands to the store are done or not; the session's `Drop` knows of all leases
    /// that it may have attached.
    pub(super) async fn receive(&mut self, message: FromClient) -> Result<(), StreamError> {
        match message {
            FromClient::Attach(leases) => self.attach(leases).await,
            FromClient::Detach(handles) => {
                for part in handles.chunks(LEASES_AT_ONCE) {
                    for handle in part.iter().copied() {
                        if let Some(lease) = self.remove(handle) {
                            self.store.detach(lease.kept());
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
        let now = Instant::now();
        let mut handles = Vec::with_capacity(leases.len());
        for lease in leases {
            let AttachLease { handle, name, lease_id, attempt, release_on_disconnect } = lease;
            if self.leases.contains_key(&handle) {
                return Err(StreamError::HandleInUse(handle));
            }
            if self.leases.len() >= self.leases_max {
                self.say(ToClient::Detached { handle, reason: DetachReason::StreamFull });
                continue;
            }
            self.attachments = self.attachments.wrapping_add(1);
            let attachment = attachment_id(self.stream, self.attachments, handle);
            // Its TTL is not known before the store has answered; if it does not, the next answer to a beat tries again.
            let place = Place { group: self.store.group(&name), handle };
            let due = self.pace.add(place, TTL_DEFAULT, now);
            let lease = Lease {
                name,
                place,
                lease_id,
                attachment,
                attempt,
                ttl: TTL_DEFAULT,
                due,
                attached: false,
                release_on_disconnect,
            };
            self.leases.insert(handle, lease);
            handles.push(handle);
        }
        let groups = self.renew(&handles, false).await;
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
        // What an earlier answer has left over is due still, and among these.
        self.to_renew = (beat, self.pace.due(Instant::now()).iter().map(|place| place.handle).collect());
        self.renew_some().await;
        Ok(())
    }

    /// Whether the last answer has leases left to renew.
    pub(super) fn is_renewing(&self) -> bool {
        !self.to_renew.1.is_empty()
    }

    /// Renews a part of what the last answer found due: a stream may have very many leases, and between two parts it beats, listens,
    /// and tells what was renewed.
    pub(super) async fn renew_some(&mut self) {
        let beat = self.to_renew.0;
        let part = self.to_renew.1.len().min(LEASES_AT_ONCE);
        let known = self.to_renew.1.drain(..part).filter(|handle| self.leases.contains_key(handle));
        let (attached, fresh) =
            known.partition::<Vec<_>, _>(|handle| self.leases.get(handle).is_some_and(|it| it.attached));
        let renewed = self.renew(&attached, true).await;
        self.say_groups(renewed, |leases| ToClient::Renewed { beat, leases });
        if !fresh.is_empty() {
            let attached = self.renew(&fresh, false).await;
            self.say_groups(attached, |leases| ToClient::Renewed { beat, leases });
        }
    }

    /// Renews leases, or attaches them, and says what went wrong. Answers those that were renewed, by their time left.
    async fn renew(&mut self, handles: &[u32], attached: bool) -> Vec<Group> {
        if handles.is_empty() {
            return Vec::new();
        }
        let asked = Instant::now();
        let kept: Vec<Kept<'_>> =
            handles.iter().filter_map(|handle| self.leases.get(handle)).map(Lease::kept).collect();
        let outcomes = if attached { self.store.renew_kept(&kept).await } else { self.store.attach(&kept).await };
        debug_assert_eq!(outcomes.len(), handles.len(), "the store answers each");
        let mut groups: HashMap<Duration, Vec<u32>> = HashMap::new();
        let mut at_risk = Vec::new();
        for (handle, outcome) in handles.iter().copied().zip(outcomes) {
            match outcome {
                Ok(RenewOutcome::Renewed(renewed)) => {
                    self.renewed(handle, renewed.ttl, asked);
                    groups.entry(renewed.left).or_default().push(handle);
                }
                Ok(RenewOutcome::Lost(gone)) => {
                    self.remove(handle);
                    self.say(ToClient::Lost { handle, gone });
                }
                Ok(RenewOutcome::AttachedElsewhere) => {
                    self.remove(handle);
                    self.say(ToClient::Detached { handle, reason: DetachReason::AttachedElsewhere });
                }
                Err(error) => {
                    self.retry_at_once(handle, asked, &error);
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
        self.pace.remove(lease.place, lease.ttl, lease.due);
        lease.ttl = ttl;
        lease.due = self.pace.add(lease.place, ttl, at);
        lease.attached = true;
    }

    /// The store did not do it: the next answer asks again.
    fn retry_at_once(&mut self, handle: u32, now: Instant, error: &StoreError) {
        tracing::debug!(handle, %error, "renewal did not get through");
        let Some(lease) = self.leases.get_mut(&handle) else { return };
        self.pace.remove(lease.place, lease.ttl, lease.due);
        lease.due = self.pace.add(lease.place, lease.ttl, now.checked_sub(lease.ttl).unwrap_or(now));
    }

    fn remove(&mut self, handle: u32) -> Option<Lease> {
        let lease = self.leases.remove(&handle)?;
        self.pace.remove(lease.place, lease.ttl, lease.due);
        Some(lease)
    }

    fn say_groups(&mut self, groups: Vec<Group>, message: impl Fn(Vec<Group>) -> ToClient) {
        for Group { left, handles } in groups {
            for handles in handles.chunks(HANDLES_PER_MESSAGE) {
                self.say(message(vec![Group { left, handles: handles.to_vec() }]));
            }
        }
    }
}

impl<S: LockStore> Drop for Session<S> {
    fn drop(&mut self) {
        self.hub.close(self.stream);
        // The server goes away: no lease is taken back for that, whether the stream was still told so or only cut.
        if self.gone.is_cancelled() {
            return;
        }
        let store = self.store.clone();
        let leases = std::mem::take(&mut self.leases);
        let mut opted_in = leases.into_values().filter(|lease| lease.release_on_disconnect).peekable();
        let mut some = move || {
            opted_in.by_ref().take(LEASES_AT_ONCE).for_each(|lease| store.disconnect(lease.kept()));
            opted_in.peek().is_some()
        };
        if !some() {
            return;
        }
        // Very many: not in one go, or others would have to wait for it.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                while some() {
                    tokio::task::yield_now().await;
                }
            })),
            Err(_) => while some() {},
        }
    }
}

fn attachment_id(stream: u64, attachment: u32, handle: u32) -> AttachmentId {
    AttachmentId(Uuid::from_u64_pair(stream, u64::from(attachment) << 32 | u64::from(handle)))
}

fn handle_of(attachment: AttachmentId) -> u32 {
    let low = attachment.0.as_u64_pair().1 & u64::from(u32::MAX);
    u32::try_from(low).unwrap_or_default()
}
