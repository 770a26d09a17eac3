//! Commands as the scripts take them, and outcomes as the scripts answer them.

use super::{
    answer::{Answer, Decoded},
    lease::{call_args, packed},
    scripts,
};
use crate::{
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        ids::ReplicaId,
        rules::Next,
        time::micros,
    },
    node::Arg,
};
use smallvec::{SmallVec, smallvec};

/// The arguments of a script command.
pub type Args = SmallVec<[Arg; 6]>;

/// The script command that replica `me` sends for a command, and its arguments.
pub fn script_of(me: ReplicaId, command: &Command) -> (&'static str, Args) {
    match command {
        Command::Acquire(Acquire { call, terms, wait, candidate }) => {
            let args = smallvec![
                Arg::from(*wait),
                Arg::from(micros(terms.ttl)),
                Arg::from(terms.min_token),
                Arg::from(scripts::kept_for(terms.ttl)),
                packed(me, *call, terms, *candidate),
            ];
            (scripts::ACQUIRE, args)
        }
        Command::Claim(call, candidate) => {
            (scripts::CLAIM, call_args(*call).into_iter().chain(candidate_args(*candidate)).collect())
        }
        Command::GiveUp(call) => (scripts::GIVE_UP, call_args(*call).into_iter().collect()),
        Command::DropCall(call) => (scripts::DROP_CALL, call_args(*call).into_iter().collect()),
        Command::Decline { request, attempt } => {
            (scripts::DECLINE, smallvec![Arg::from(request.0), Arg::from(*attempt)])
        }
        Command::Release(lease_id) => (scripts::RELEASE, smallvec![Arg::from(lease_id.0)]),
        Command::Renew { lease_id, ttl } => {
            let lease_id = [Arg::from(lease_id.0)].into_iter();
            (scripts::RENEW, lease_id.chain(ttl.map(|ttl| Arg::from(micros(ttl)))).collect())
        }
        Command::RenewKept(lease_id, attachment) => {
            (scripts::RENEW_KEPT, smallvec![Arg::from(lease_id.0), Arg::from(attachment.0)])
        }
        Command::Attach { lease_id, attempt, attachment } => {
            (scripts::ATTACH, smallvec![Arg::from(lease_id.0), Arg::from(*attempt), Arg::from(attachment.0)])
        }
        Command::Detach(lease_id, attachment) => {
            (scripts::DETACH, smallvec![Arg::from(lease_id.0), Arg::from(attachment.0)])
        }
        Command::Disconnect(lease_id, attachment) => {
            (scripts::DISCONNECT, smallvec![Arg::from(lease_id.0), Arg::from(attachment.0)])
        }
        Command::ForceRelease { expected, reason } => {
            (scripts::FORCE_RELEASE, smallvec![Arg::from(expected.get()), Arg::from(reason.as_str())])
        }
        Command::View => (scripts::VIEW, Args::new()),
    }
}

/// The arguments that a release takes besides its own, to claim for the next waiter.
pub fn next_args(Next { call, candidate }: Next) -> impl Iterator<Item = Arg> {
    call_args(call).into_iter().chain(candidate_args(candidate))
}

fn candidate_args(candidate: Candidate) -> [Arg; 3] {
    let attachment = candidate.attachment.map_or(Arg::from(""), |attachment| Arg::from(attachment.0));
    [Arg::from(candidate.lease_id.0), Arg::from(candidate.grant_id.0), attachment]
}

/// The outcome of a command, from the answer of its script. Not of a release that claims: [`Answer::release`].
pub fn outcome_of(command: &Command, answer: Answer) -> Decoded<Outcome> {
    Ok(match command {
        Command::Acquire(_) | Command::Claim(..) | Command::GiveUp(_) => answer.acquire()?.into(),
        Command::Release(_) => answer.release()?.0.into(),
        Command::Renew { .. } | Command::RenewKept(..) | Command::Attach { .. } => answer.renew()?.into(),
        Command::ForceRelease { .. } => answer.revoke()?.into(),
        Command::View => Box::new(answer.view()?).into(),
        Command::DropCall(_) | Command::Decline { .. } | Command::Detach(..) | Command::Disconnect(..) => {
            answer.done()?;
            Outcome::Done
        }
    })
}
