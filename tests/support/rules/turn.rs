//! Runs the command of a step through the rules.

use super::{
    Step, World, grant_id, id, lease_id,
    terms::{call, terms_of},
};
use fencepost::testing::domain::{
    command::{Acquire, Candidate, Command, Effects, Outcome},
    ids::{AttachmentId, Call, ReplicaId},
    mode::ConvertTo,
    name::Reason,
    replicas::Replicas,
    rules::Turn,
    token::FencingToken,
};
use std::time::Duration;

/// A token that no lease has.
const UNUSED: FencingToken = FencingToken::new(1).unwrap();

impl World {
    pub(super) fn turn(&mut self, step: Step, effects: &mut Effects) -> Outcome {
        let now = self.now;
        let command = self.command(step);
        let mut turn = Turn {
            classic: None,
            lock: &mut self.lock,
            sequencer: &mut self.sequencer,
            effects,
            now,
            replica: ReplicaId(id(0)),
            replicas: &Replicas::one(),
            waiters_max: self.waiters_max,
        };
        match command {
            Some(Command::Acquire(acquire)) if matches!(step, Step::Keep { .. }) => {
                turn.keep_queue_position(acquire).into()
            }
            Some(command) => turn.run(command),
            None if step == Step::ApplyTime => {
                turn.apply_time();
                Outcome::Done
            }
            None => Outcome::Done,
        }
    }

    fn command(&self, step: Step) -> Option<Command> {
        let candidate = |lease| Candidate { lease_id: lease_id(lease), grant_id: grant_id(lease), attachment: None };
        Some(match step {
            Step::Acquire { request, attempt, copy, wait, lease } => {
                Command::Acquire(acquire_command(call(request, attempt, copy), wait, candidate(lease)))
            }
            Step::AcquireOther { request, attempt } => {
                let mut other = acquire_command(call(request, attempt, 0), true, candidate(0));
                other.terms.fingerprint += 1_000;
                Command::Acquire(other)
            }
            Step::Keep { request, attempt } => {
                Command::Acquire(acquire_command(call(request, attempt, 0), true, candidate(0)))
            }
            Step::Claim { request, attempt, copy, lease } => {
                Command::Claim(call(request, attempt, copy), candidate(lease))
            }
            Step::GiveUp { request, attempt, copy } => Command::GiveUp(call(request, attempt, copy)),
            Step::Drop { request, attempt, copy } => Command::DropCall(call(request, attempt, copy)),
            Step::Release { lease } => Command::Release(lease_id(lease)),
            Step::Renew { lease, ttl } => {
                Command::Renew { lease_id: lease_id(lease), ttl: ttl.map(Duration::from_micros) }
            }
            Step::RenewKept { lease, attachment } => Command::RenewKept(lease_id(lease), AttachmentId(id(attachment))),
            Step::Attach { lease, attempt, attachment } => {
                Command::Attach { lease_id: lease_id(lease), attempt, attachment: AttachmentId(id(attachment)) }
            }
            Step::Detach { lease, attachment } => Command::Detach(lease_id(lease), AttachmentId(id(attachment))),
            Step::Disconnect { lease, attachment } => {
                Command::Disconnect(lease_id(lease), AttachmentId(id(attachment)))
            }
            Step::Convert { lease, upgrades, shared } => Command::Convert {
                lease_id: lease_id(lease),
                token: self.oracle.token_before(lease, upgrades).unwrap_or(UNUSED),
                to: if shared { ConvertTo::Shared } else { ConvertTo::Exclusive },
            },
            Step::ForceRelease { right } => {
                let named = self.oracle.token_to_revoke().filter(|_| right);
                let expected = named.unwrap_or(UNUSED);
                Command::ForceRelease { expected, reason: Reason::new("a test".into()).unwrap() }
            }
            Step::ForceReleaseGhost => {
                let expected = self.oracle.token_to_lift().unwrap_or(UNUSED);
                Command::ForceRelease { expected, reason: Reason::new("a test".into()).unwrap() }
            }
            Step::ApplyTime | Step::Pass(_) | Step::Back(_) | Step::ToEdge | Step::BeforeEdge => return None,
        })
    }
}

fn acquire_command(call: Call, wait: bool, candidate: Candidate) -> Acquire {
    Acquire { call, terms: terms_of(call), wait, candidate }
}
