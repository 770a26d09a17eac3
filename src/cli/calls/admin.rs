//! `force-release` and `drain`: the commands of an operator.

use crate::cli::{
    args::{CallArgs, ServerArgs},
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NO, UNAVAILABLE, USAGE},
    question::{self, Answer},
    text,
};
use crate::config::Config;
use clap::Args;
use fencepost_client::{
    CallError, Code,
    raw::v1::{
        DrainRequest, DrainResponse, ForceReleaseRequest, ForceReleaseResponse, force_release_response::Outcome,
    },
};

/// Where the server offers these calls.
const ON_THE_ADMIN_PORT: &str = "\
The server offers this on its admin port: --server 127.0.0.1:7429 on its machine, by default. With serve \
--admin-service everywhere the port of locks offers it too.";

const DRAIN_HELP: &str = "\
A drain ends the server. It needs --server or --yes: the address in FENCEPOST_SERVER, or the default one, is \
drained only with --yes, or after a question on a terminal. Of several addresses it is the first one. Exit codes: 0 \
the server drains; 64 no server was named and the question was not answered with yes; 69 no server answered.";

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
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    call: CallArgs,
}

/// The server to drain: the first one that --server, or FENCEPOST_SERVER, names.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{DRAIN_HELP}\n\n{ON_THE_ADMIN_PORT}"))]
pub(crate) struct DrainArgs {
    /// Drain without a question the server that FENCEPOST_SERVER names, or the one at the default address
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
    let servers = &args.call.servers;
    // A call goes to the first server that answers. A drain is for the one that was named, and no other.
    let first = servers.first();
    if !args.yes && !servers.is_on_command_line() {
        confirm(&first.addresses().concat(), question::ask)?;
    }
    let result = client(&first, RETRY_FOR)?.calls().drain(DrainRequest {}).await;
    let reply = result.map_err(|error| refused(&error, &first))?;
    super::finish(args.call.json, "DrainResponse", &reply, Ok(draining(&reply)))
}

/// The failure of such a call. The port of locks does not offer them by default.
fn refused(error: &CallError, servers: &ServerArgs) -> Failure {
    if error.code() != Code::Unimplemented {
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

/// Asks whether to drain a server that the command line does not name, because a drain ends the server.
fn confirm(address: &str, ask: impl FnOnce(&str) -> Answer) -> Result<(), Failure> {
    let address = text::visible(address);
    let why = match ask(&format!("drain ends the server at {address}: drain it? [y/N] ")) {
        Answer::Yes => return Ok(()),
        Answer::No => "nothing was done",
        Answer::NoTerminal => "drain ends a server, and the command line names none",
    };
    Err(Failure::new(USAGE, format!("{why}: name it with --server, or add --yes to drain the server at {address}")))
}

fn revoked(name: &str, token: u64, reply: &ForceReleaseResponse) -> Result<String, Failure> {
    match reply.outcome() {
        Outcome::Revoked => {
            let (name, holder) = (text::visible(name), text::name(&reply.holder));
            Ok(format!("revoked the lease of {holder} on {name} (token {token})"))
        }
        Outcome::NotHeld => Err(Failure::new(NO, format!("nobody holds {name}: nothing was changed"))),
        Outcome::TokenMismatch => Err(Failure::new(
            NO,
            format!(
                "{name} is held, or kept by a delay, under token {}, not {token}: nothing was changed",
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
        assert_eq!(
            failure,
            Failure::new(NO, "a is held, or kept by a delay, under token 9, not 7: nothing was changed")
        );
        assert_eq!(revoked("a", 7, &reply(Outcome::NotHeld)).unwrap_err().code, NO);
    }

    #[test]
    fn a_server_that_the_command_line_does_not_name_is_drained_only_after_a_yes() {
        let answered = |answer| {
            confirm("a:7420", |question| {
                assert!(question.contains("a:7420"), "{question}");
                answer
            })
        };
        assert_eq!(answered(Answer::Yes), Ok(()));
        for answer in [Answer::No, Answer::NoTerminal] {
            let refused = answered(answer).unwrap_err();
            assert_eq!(refused.code, USAGE);
            assert!(refused.message.contains("--yes") && refused.message.contains("a:7420"), "{refused:?}");
        }
    }

    #[test]
    fn a_drain_prints_its_counts() {
        let text = draining(&DrainResponse { waiters: 1, streams: 2 });
        assert_eq!(text, "draining: 1 waiter refused, 2 streams notified");
    }
}
