//! `renew`, `convert` and `release`: for callers of `acquire`.

use crate::cli::{
    args::{CallArgs, LeaseArgs, duration},
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NO, NOT_ACQUIRED},
    text,
};
use clap::{Args, ValueEnum};
use fencepost_client::raw::v1::{
    ConvertRequest, ConvertResponse, LeaseEnd, LockMode, ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse,
    convert_response::Outcome as Converted, renew_response::Outcome,
};
use std::time::Duration;

/// The lease to renew.
#[derive(Args, Clone, Debug)]
pub(crate) struct RenewArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    lease: LeaseArgs,
    /// New TTL, such as 30s (default: the current TTL of the lease)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Duration>,
    #[command(flatten)]
    call: CallArgs,
}

/// The lease to convert.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConvertArgs {
    /// Name of the lock
    name: String,
    /// The mode that the lease is to have
    to: To,
    #[command(flatten)]
    lease: LeaseArgs,
    /// Its token, as acquire or the last conversion printed it
    #[arg(long, value_name = "TOKEN", env = "FENCEPOST_TOKEN")]
    token: u64,
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// Others may share the lock from now on
    Shared,
    /// Nobody else shares it from now on
    Exclusive,
}

/// The lease to release.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReleaseArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn renew(args: RenewArgs) -> Result<(), Failure> {
    let request =
        RenewRequest { lock_name: args.name.clone(), lease_id: args.lease.lease_id, ttl: args.ttl.map(text::to_wire) };
    let result = client(&args.call.servers, RETRY_FOR)?.calls().renew(request).await;
    let reply = result.map_err(|error| failed(&error, CallKind::Write, &args.call.servers))?;
    super::finish(args.call.json, "RenewResponse", &reply, renewed(&args.name, &reply))
}

pub(in crate::cli) async fn convert(args: ConvertArgs) -> Result<(), Failure> {
    let mode = if args.to == To::Shared { LockMode::Shared } else { LockMode::Exclusive };
    let request = ConvertRequest {
        lock_name: args.name.clone(),
        lease_id: args.lease.lease_id,
        fencing_token: args.token,
        mode: mode.into(),
    };
    let result = client(&args.call.servers, RETRY_FOR)?.calls().convert(request).await;
    let reply = result.map_err(|error| failed(&error, CallKind::Write, &args.call.servers))?;
    super::finish(args.call.json, "ConvertResponse", &reply, converted(&args.name, args.to, &reply))
}

pub(in crate::cli) async fn release(args: ReleaseArgs) -> Result<(), Failure> {
    let request = ReleaseRequest { lock_name: args.name.clone(), lease_id: args.lease.lease_id };
    let result = client(&args.call.servers, RETRY_FOR)?.calls().release(request).await;
    let reply = result.map_err(|error| failed(&error, CallKind::Write, &args.call.servers))?;
    super::finish(args.call.json, "ReleaseResponse", &reply, released(&args.name, &reply))
}

fn renewed(name: &str, reply: &RenewResponse) -> Result<String, Failure> {
    match reply.outcome() {
        Outcome::Renewed => {
            let ttl = text::span(text::from_wire(reply.ttl.as_ref()));
            Ok(format!("renewed {} (token {}) for {ttl}", text::visible(name), reply.fencing_token))
        }
        Outcome::Lost => Err(Failure::new(NO, ended(name, reply.end(), reply.successor_token, "stop the work"))),
        Outcome::Unspecified => Err(super::unknown_answer()),
    }
}

fn converted(name: &str, to: To, reply: &ConvertResponse) -> Result<String, Failure> {
    let how = if to == To::Shared { "shared" } else { "exclusive" };
    match reply.outcome() {
        Converted::Converted => {
            let ttl = text::span(text::from_wire(reply.ttl.as_ref()));
            Ok(format!("{} is {how} (token {}) for {ttl}", text::visible(name), reply.fencing_token))
        }
        Converted::Contended => {
            let holders = text::state((&reply.holders, reply.holder_count), None);
            // This lease is one of them. What else can be in the way has no holder.
            let unseen = match reply.holder_count {
                0 | 1 => ", and is offered to another reader, or a delay keeps the place of one that has gone",
                _ => "",
            };
            let what = format!("{} is {holders}{unseen}: nothing was changed", text::visible(name));
            Err(Failure::new(NOT_ACQUIRED, format!("{what}; try again when no other reader is left")))
        }
        Converted::Lost => Err(Failure::new(NO, ended(name, reply.end(), reply.successor_token, "stop the work"))),
        Converted::Unspecified => Err(super::unknown_answer()),
    }
}

fn released(name: &str, reply: &ReleaseResponse) -> Result<String, Failure> {
    match reply.end() {
        LeaseEnd::Released => Ok(format!("released {}", text::visible(name))),
        end @ (LeaseEnd::Expired | LeaseEnd::Revoked) => {
            let advice = "nothing was changed, apart from a lock-delay, which has ended";
            Err(Failure::new(NO, ended(name, end, reply.successor_token, advice)))
        }
        end => Err(Failure::new(NO, ended(name, end, reply.successor_token, "nothing was changed"))),
    }
}

pub(super) fn ended(name: &str, end: LeaseEnd, successor: u64, advice: &str) -> String {
    format!("the lease of {name} {}{}: {advice}", text::end(end), text::successor(successor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_prints_the_ttl() {
        let reply = RenewResponse {
            outcome: Outcome::Renewed.into(),
            ttl: Some(text::to_wire(Duration::from_secs(30))),
            fencing_token: 7,
            ..Default::default()
        };
        assert_eq!(renewed("a", &reply).unwrap(), "renewed a (token 7) for 30 s");
    }

    #[test]
    fn the_message_says_how_a_lease_ended() {
        let reply = RenewResponse {
            outcome: Outcome::Lost.into(),
            end: LeaseEnd::Expired.into(),
            successor_token: 8,
            ..Default::default()
        };
        let failure = renewed("a", &reply).unwrap_err();
        let text = "the lease of a expired; the lock is now held under token 8: stop the work";
        assert_eq!(failure, Failure::new(NO, text));
        let reply = ReleaseResponse { end: LeaseEnd::Revoked.into(), successor_token: 0 };
        let failure = released("a", &reply).unwrap_err();
        let text = "the lease of a was revoked: nothing was changed, apart from a lock-delay, which has ended";
        assert_eq!(failure, Failure::new(NO, text));
        // The server says so of any id that it does not know while the lock is held.
        let reply = ReleaseResponse { end: LeaseEnd::Superseded.into(), successor_token: 8 };
        let text = "the lease of a is not known to the server: it ended a while ago, or never existed; the lock is now \
                    held under token 8: nothing was changed";
        assert_eq!(released("a", &reply).unwrap_err(), Failure::new(NO, text));
        assert_eq!(
            released("a", &ReleaseResponse { end: LeaseEnd::Released.into(), successor_token: 0 }).unwrap(),
            "released a"
        );
    }
}
