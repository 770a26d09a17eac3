//! Runs a command through the rules.

use super::{Answer, Command, World, grant_id, holder, id, lease_id, request_number, ttl};
use fencepost::domain::{
    ids::{AttachmentId, Call, CallId, Incarnation, ReplicaId, RequestId},
    lease::Terms,
    limits::COMMAND_WINDOW,
    name::Metadata,
    outcome::Effects,
    replicas::Replicas,
    rules::{Acquire, Candidate, Turn},
    time::StoreTime,
    token::FencingToken,
};
use std::time::Duration;

impl World {
    pub(super) fn turn(&mut self, command: Command, effects: &mut Effects) -> Answer {
        let now = self.now;
        let waiters_max = self.waiters_max;
        let held = self.lock.lease().map(|lease| lease.token);
        let mut replicas = Replicas::one();
        let mut turn = Turn {
            classic: None,
            lock: &mut self.lock,
            sequencer: &mut self.sequencer,
            effects,
            now,
            not_after: now.after(COMMAND_WINDOW),
            incarnation: Incarnation(id(1)),
            present: Incarnation(id(1)),
            replica: ReplicaId(id(0)),
            replicas: &mut replicas,
            known_token: 0,
            waiters_max,
        };
        let candidate = |lease| Candidate { lease_id: lease_id(lease), grant_id: grant_id(lease), attachment: None };
        match command {
            Command::Acquire { request, attempt, copy, wait, lease } => {
                turn.not_after = now;
                Answer::Acquire(turn.acquire(wish(call(request, attempt, copy), wait, candidate(lease))))
            }
            Command::AcquireOther { request, attempt } => {
                let mut other = wish(call(request, attempt, 0), true, candidate(0));
                other.terms.fingerprint += 1_000;
                Answer::Acquire(turn.acquire(other))
            }
            Command::AcquireLate { request, attempt } => {
                turn.not_after = StoreTime::from_micros(now.as_micros() - 1);
                Answer::Acquire(turn.acquire(wish(call(request, attempt, 0), true, candidate(0))))
            }
            Command::Claim { request, attempt, copy, lease } => {
                turn.not_after = now;
                Answer::Acquire(turn.claim(call(request, attempt, copy), candidate(lease)))
            }
            Command::ClaimLate { request, attempt } => {
                turn.not_after = StoreTime::from_micros(now.as_micros() - 1);
                Answer::Acquire(turn.claim(call(request, attempt, 0), candidate(0)))
            }
            Command::GiveUp { request, attempt, copy } => Answer::Acquire(turn.give_up(call(request, attempt, copy))),
            Command::Drop { request, attempt, copy, window } => {
                turn.not_after = now.after(Duration::from_micros(window));
                turn.drop_call(call(request, attempt, copy));
                Answer::Nothing
            }
            Command::Release { lease } => Answer::Release(turn.release(lease_id(lease))),
            Command::Renew { lease, ttl } => {
                Answer::Renew(turn.renew(lease_id(lease), ttl.map(Duration::from_micros), None))
            }
            Command::RenewAttached { lease, attachment } => {
                Answer::Renew(turn.renew(lease_id(lease), None, Some(AttachmentId(id(attachment)))))
            }
            Command::Attach { lease, attempt, attachment } => {
                Answer::Renew(turn.attach(lease_id(lease), attempt, AttachmentId(id(attachment))))
            }
            Command::Detach { lease, attachment } => {
                turn.detach(lease_id(lease), AttachmentId(id(attachment)));
                Answer::Nothing
            }
            Command::Disconnect { lease, attachment } => {
                turn.disconnect(lease_id(lease), AttachmentId(id(attachment)));
                Answer::Nothing
            }
            Command::ForceRelease { right } => {
                let expected = held.filter(|_| right).unwrap_or(FencingToken::new(1).unwrap());
                Answer::Revoke(turn.force_release(expected))
            }
            Command::Settle => {
                turn.settle();
                Answer::Nothing
            }
            Command::Pass(_) | Command::Back(_) | Command::ToEdge | Command::BeforeEdge => Answer::Nothing,
        }
    }
}

fn call(request: u8, attempt: u32, copy: u8) -> Call {
    Call { request: RequestId(id(request.into())), attempt, id: CallId(1 + u64::from(copy)) }
}

fn wish(call: Call, wait: bool, candidate: Candidate) -> Acquire {
    let request = request_number(call.request);
    let terms = Terms {
        fingerprint: request.into(),
        ttl: ttl(request),
        holder: holder(request),
        metadata: Metadata::default(),
        min_token: 0,
    };
    Acquire { call, terms, wait, candidate }
}
