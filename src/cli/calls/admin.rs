//! `force-release` and `drain`: the commands of an operator.

use crate::cli::{
    args::{CallArgs, ServerArgs},
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{COMMAND_LINE, Failure, NO, UNAVAILABLE},
    text,
};
use crate::config::Config;
use clap::Args;
use fencepost_client::{
    CallError,
    v1::{DrainRequest, DrainResponse, ForceReleaseRequest, ForceReleaseResponse, force_release_response::Outcome},
};
use tonic::Code;

/// Where the server offers these calls.
const ON_THE_ADMIN_PORT: &str = "\
The server offers this on its admin port: --server 127.0.0.1:7429 on its machine, by default. With serve --admin-service
everywhere the port of locks offers it too.";

/// The lease to revoke.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = ON_THE_ADMIN_PORT)]
pub(crate) struct ForceReleaseArgs {
    /// Name of the lock
    name: String,
    /// Token of the lease to revoke, as get shows it; a later lease of the lock is not revoked
    #[arg(long)]
    token: u64,
    /// Why: for the log of the server, and for watchers
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    call: CallArgs,
}

/// The server to drain: the first one that --server names.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = ON_THE_ADMIN_PORT)]
pub(crate) struct DrainArgs {
    /// Drain the server at the default address if neither --server nor FENCEPOST_SERVER names one
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn force_release(args: ForceReleaseArgs) -> Result<(), Failure> {
    let request = ForceReleaseRequest { lock_name: args.name.clone(), expected_token: args.token, reason: args.reason };
    let result = client(&args.call.servers, RETRY_FOR)?.calls().force_release(request).await;
    let reply = result.map_err(|error| refused(&error, &args.call.servers))?;
    super::finish(args.call.json, "ForceReleaseResponse", &reply, revoked(&args.name, args.token, &reply))
}

pub(in crate::cli) async fn drain(args: DrainArgs) -> Result<(), Failure> {
    require_server(&args)?;
    let result = client(&args.call.servers, RETRY_FOR)?.calls().drain(DrainRequest {}).await;
    let reply = result.map_err(|error| refused(&error, &args.call.servers))?;
    super::finish(args.call.json, "DrainResponse", &reply, Ok(draining(&reply)))
}

/// The failure of such a call. The port of locks does not offer them by default.
fn refused(error: &CallError, servers: &ServerArgs) -> Failure {
    if error.code() != Code::Unimplemented || error.explanation().is_some() {
        return failed(error, CallKind::Write, servers);
    }
    let asked = servers.addresses().join(", ");
    Failure::new(
        UNAVAILABLE,
        format!(
            "{asked} does not offer this call, and nothing was done: drain and force-release are on the admin port of \
             the server (--server {}, on its machine and by default), unless it runs with --admin-service everywhere",
            Config::default().admin_listen
        ),
    )
}

/// Refuses to drain the default server without `--yes`, because a drain ends the server.
fn require_server(args: &DrainArgs) -> Result<(), Failure> {
    let servers = &args.call.servers;
    if args.yes || servers.is_given() {
        return Ok(());
    }
    let message = format!(
        "drain ends a server, and the command names none: name it with --server or FENCEPOST_SERVER, \
         or add --yes to drain the default, {}",
        servers.addresses().join(", ")
    );
    Err(Failure::new(COMMAND_LINE, message))
}

fn revoked(name: &str, token: u64, reply: &ForceReleaseResponse) -> Result<String, Failure> {
    match reply.outcome() {
        Outcome::Revoked => Ok(format!("revoked the lease of {} on {name} (token {token})", text::name(&reply.holder))),
        Outcome::NotHeld => Err(Failure::new(NO, format!("nobody holds {name}: nothing was changed"))),
        Outcome::TokenMismatch => Err(Failure::new(
            NO,
            format!(
                "{name} is held under token {}, not {token}: nothing was changed",
                text::list(&reply.current_tokens)
            ),
        )),
        Outcome::Unspecified => Err(super::unknown_answer()),
    }
}

fn draining(reply: &DrainResponse) -> String {
    let count = |count: u32, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!("draining: {} refused, {} notified", count(reply.waiters, "waiter"), count(reply.streams, "stream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_force_release_names_the_holder_or_why_nothing_changed() {
        let reply = |outcome: Outcome| ForceReleaseResponse {
            outcome: outcome.into(),
            holder: "worker-7".to_owned(),
            current_tokens: vec![9],
        };
        assert_eq!(revoked("a", 7, &reply(Outcome::Revoked)).unwrap(), "revoked the lease of worker-7 on a (token 7)");
        let failure = revoked("a", 7, &reply(Outcome::TokenMismatch)).unwrap_err();
        assert_eq!(failure, Failure::new(NO, "a is held under token 9, not 7: nothing was changed"));
        assert_eq!(revoked("a", 7, &reply(Outcome::NotHeld)).unwrap_err().code, NO);
    }

    #[test]
    fn the_default_server_is_drained_only_with_yes() {
        let drain = |yes| DrainArgs { yes, call: CallArgs { servers: ServerArgs::default(), json: false } };
        let refused = require_server(&drain(false)).unwrap_err();
        assert_eq!(refused.code, COMMAND_LINE);
        assert!(refused.message.contains("--yes") && refused.message.contains("127.0.0.1:7420"), "{refused:?}");
        assert_eq!(require_server(&drain(true)), Ok(()));
    }

    #[test]
    fn a_drain_prints_its_counts() {
        let text = draining(&DrainResponse { waiters: 1, streams: 2 });
        assert_eq!(text, "draining: 1 waiter refused, 2 streams notified");
    }
}
