//! `describe`: replaces what others see of a lease.

use super::lease::ended;
use crate::cli::{
    args::{CallArgs, LeaseArgs, each_key_once, key_value},
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NO},
    text,
};
use clap::Args;
use fencepost_client::raw::v1::{DescribeRequest, DescribeResponse, describe_response::Outcome};

/// The lease, and what others are to see of it.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
get, ls and observe show it at once, and watch tells that the lock was changed. The lease, its token and its end stay \
as they are. With --number, a copy of the call that arrives late changes nothing.")]
pub(crate) struct DescribeArgs {
    /// Name of the lock
    name: String,
    /// Metadata of the holder from now on, in place of all that it had; without any, none is left
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    metadata: Vec<(String, String)>,
    #[command(flatten)]
    lease: LeaseArgs,
    /// Label of the holder from now on (default: as it is)
    #[arg(long, value_name = "LABEL")]
    holder: Option<String>,
    /// Number of this description of the lease: 1, 2, ... The highest one wins (default: one more than the last)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn describe(args: DescribeArgs) -> Result<(), Failure> {
    each_key_once(&args.metadata)?;
    let request = DescribeRequest {
        lock_name: args.name.clone(),
        lease_id: args.lease.lease_id,
        metadata: args.metadata.into_iter().collect(),
        holder: args.holder,
        number: args.number.unwrap_or_default(),
    };
    let result = client(&args.call.servers, RETRY_FOR)?.calls().describe(request).await;
    let reply = result.map_err(|error| failed(&error, CallKind::Write, &args.call.servers))?;
    super::finish(args.call.json, "DescribeResponse", &reply, described(&args.name, &reply))
}

fn described(name: &str, reply: &DescribeResponse) -> Result<String, Failure> {
    match reply.outcome() {
        Outcome::Described => Ok(format!("described {} (description {})", text::visible(name), reply.number)),
        Outcome::Outdated => Err(Failure::new(
            NO,
            format!("{name} has a newer description, with number {}: nothing was changed", reply.number),
        )),
        Outcome::Lost => Err(Failure::new(NO, ended(name, reply.end(), reply.successor_token, "stop the work"))),
        Outcome::Unspecified => Err(super::unknown_answer()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_client::raw::v1::LeaseEnd;

    #[test]
    fn a_description_prints_its_number_or_why_nothing_changed() {
        let reply = |outcome: Outcome| DescribeResponse {
            outcome: outcome.into(),
            number: 3,
            end: LeaseEnd::Expired.into(),
            successor_token: 8,
        };
        assert_eq!(described("a", &reply(Outcome::Described)).unwrap(), "described a (description 3)");
        let outdated = described("a", &reply(Outcome::Outdated)).unwrap_err();
        assert_eq!(outdated, Failure::new(NO, "a has a newer description, with number 3: nothing was changed"));
        let lost = described("a", &reply(Outcome::Lost)).unwrap_err();
        let text = "the lease of a expired; the lock is now held under token 8: stop the work";
        assert_eq!(lost, Failure::new(NO, text));
    }
}
