//! `force-release` and `drain`: what an operator does.

use crate::cli::{
    args::CallArgs,
    connect::{Effect, PROMPT, client, failed},
    exit::{COMMAND_LINE, Failure, NO, UNAVAILABLE},
    text,
};
use clap::Args;
use fencepost_client::v1::{
    DrainRequest, DrainResponse, ForceReleaseRequest, ForceReleaseResponse, force_release_response::Outcome,
};

/// What to take back.
#[derive(Args, Clone, Debug)]
pub(crate) struct ForceReleaseArgs {
    /// The lock's name
    name: String,
    /// The token of the lease to take back, from get: so that you do not hit its successor
    #[arg(long)]
    token: u64,
    /// Why, for the server's log and for those who watch
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    call: CallArgs,
}

/// Which server: the first one that --server names.
#[derive(Args, Clone, Debug)]
pub(crate) struct DrainArgs {
    /// Drain the server at the default address, though neither --server nor FENCEPOST_SERVER names it
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn force_release(args: ForceReleaseArgs) -> Result<(), Failure> {
    let request = ForceReleaseRequest { lock_name: args.name.clone(), expected_token: args.token, reason: args.reason };
    let result = client(&args.call.servers, String::new(), PROMPT)?.calls().force_release(request).await;
    let reply = result.map_err(|error| failed(&error, Effect::Writes, &args.call.servers))?;
    super::answer(args.call.json, "ForceReleaseResponse", &reply, taken_back(&args.name, args.token, &reply))
}

pub(in crate::cli) async fn drain(args: DrainArgs) -> Result<(), Failure> {
    names_its_server(&args)?;
    let result = client(&args.call.servers, String::new(), PROMPT)?.calls().drain(DrainRequest {}).await;
    let reply = result.map_err(|error| failed(&error, Effect::Writes, &args.call.servers))?;
    super::answer(args.call.json, "DrainResponse", &reply, Ok(draining(&reply)))
}

/// A drain ends the server: one that nobody named is drained only on request.
fn names_its_server(args: &DrainArgs) -> Result<(), Failure> {
    let servers = &args.call.servers;
    if args.yes || servers.is_given() {
        return Ok(());
    }
    let message = format!(
        "drain ends the server, and none was named: name it with --server or FENCEPOST_SERVER, \
         or add --yes to drain the default, {}",
        servers.addresses().join(", ")
    );
    Err(Failure::new(COMMAND_LINE, message))
}

fn taken_back(name: &str, token: u64, reply: &ForceReleaseResponse) -> Result<String, Failure> {
    match reply.outcome() {
        Outcome::Revoked => Ok(format!("took {name} from {} (token {token})", text::name(&reply.holder))),
        Outcome::NotHeld => Err(Failure::new(NO, format!("nobody holds {name}: nothing was changed"))),
        Outcome::TokenMismatch => Err(Failure::new(
            NO,
            format!(
                "{name} is held under token {}, not {token}: nothing was changed",
                text::list(&reply.current_tokens)
            ),
        )),
        Outcome::Unspecified => {
            Err(Failure::new(UNAVAILABLE, "the server's answer is not one that this version knows"))
        }
    }
}

fn draining(reply: &DrainResponse) -> String {
    let count = |count: u32, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!("draining: {} sent away, {} told", count(reply.waiters, "waiter"), count(reply.streams, "stream"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::ServerArgs;

    #[test]
    fn taking_back_names_the_victim_or_says_why_not() {
        let reply = |outcome: Outcome| ForceReleaseResponse {
            outcome: outcome.into(),
            holder: "worker-7".to_owned(),
            current_tokens: vec![9],
        };
        assert_eq!(taken_back("a", 7, &reply(Outcome::Revoked)).unwrap(), "took a from worker-7 (token 7)");
        let failure = taken_back("a", 7, &reply(Outcome::TokenMismatch)).unwrap_err();
        assert_eq!(failure, Failure::new(NO, "a is held under token 9, not 7: nothing was changed"));
        assert_eq!(taken_back("a", 7, &reply(Outcome::NotHeld)).unwrap_err().code, NO);
    }

    #[test]
    fn only_a_server_that_was_named_is_drained_without_a_yes() {
        let drain = |yes| DrainArgs { yes, call: CallArgs { servers: ServerArgs::default(), json: false } };
        let refused = names_its_server(&drain(false)).unwrap_err();
        assert_eq!(refused.code, COMMAND_LINE);
        assert!(refused.message.contains("--yes") && refused.message.contains("127.0.0.1:7420"), "{refused:?}");
        assert_eq!(names_its_server(&drain(true)), Ok(()));
    }

    #[test]
    fn a_drain_counts() {
        let text = draining(&DrainResponse { waiters: 1, streams: 2 });
        assert_eq!(text, "draining: 1 waiter sent away, 2 streams told");
    }
}
