//! `quorum replace`: replaces one Redis server of the store by another one.

use super::{Named, unknown};
use crate::{
    cli::{
        calls::print,
        exit::{COMMAND_LINE, Failure, NO, UNAVAILABLE},
        store::StoreArgs,
        write_note,
    },
    store::quorum::{
        config::{
            replace_node::{Plan, ReplaceError, Replacement},
            search::Search,
        },
        nodes::{addresses::Connected, client::NodeClient},
        paxos::node::Mark,
    },
};
use clap::Args;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// How often the new Redis is asked how far it is.
const PROGRESS_PERIOD: Duration = Duration::from_millis(500);
/// How long it may get no further. A server that runs begins within a second, and a large partition takes some.
const SILENCE_MAX: Duration = Duration::from_secs(30);

#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Both are named as quorum status shows them: host:port, or host:port/db. NEW is entered with the user, the password \
and the TLS of the URLs in --store, which have to be the same for all, unless --store names NEW as well, in the \
place of OLD.

OLD may be dead. All others have to be there with all locks, and NEW has to be empty. Servers go on meanwhile, with \
a pause of less than a second, and bring NEW up to date. A replacement that was broken off is repeated in the same \
way; quorum status shows that there is one. Afterwards change --store of each server, at its next start at the \
latest: it finds its way from an old --store as long as one of the nodes in it is left.

Exit codes: 0 NEW has all locks; 1 refused, nothing was done; 69 a Redis does not answer, or NEW did not get all \
locks.")]
pub(crate) struct ReplaceArgs {
    /// The Redis to be replaced
    old: String,
    /// The Redis that takes its place
    new: String,

    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn replace(args: &ReplaceArgs) -> Result<(), Failure> {
    let named = Named::of_several(&args.store)?;
    let address = |what, given: &str| {
        let url = named.addresses.of(given).map_err(|why| Failure::new(COMMAND_LINE, format!("{what}: {why}")))?;
        Ok::<_, Failure>(Arc::from(url.address()))
    };
    let replacement = Replacement { old: address("OLD", &args.old)?, new: address("NEW", &args.new)? };
    let mut search = Search::new(&named.addresses, &named.members);
    let sight = search.look().await.map_err(|why| unknown(&why))?;
    let plan = replacement.plan(&sight, &named.members).map_err(|why| refused(&why))?;
    search.also(&replacement.new);
    let sight = search.look().await.map_err(|why| unknown(&why))?;
    let nodes = search.nodes().ok_or_else(|| Failure::new(UNAVAILABLE, "no node is known"))?;
    let to = match plan {
        Plan::Decided(mark) => mark,
        Plan::Begin { from, to } => {
            replacement.check(nodes, &from, &to, &sight).await.map_err(|why| refused(&why))?;
            to
        }
    };
    replacement.write(nodes, &to).await.map_err(|why| refused(&why))?;
    let Replacement { old, new } = &replacement;
    let members = to.members.join(",");
    write_note(&format!("{new} is a node of the store in place of {old}; the servers bring it up to date"));
    bring_up_to_date(&replacement, nodes, &to).await?;
    print(&format!(
        "store {:032x}, list {}: {new} has the locks of all partitions, in the place of {old}\n\
         name {members} in --store of each server from now on; {old} is not used any more",
        to.cluster.0, to.list,
    ))
}

fn refused(why: &ReplaceError) -> Failure {
    match why {
        ReplaceError::Unknown(why) => unknown(why),
        ReplaceError::Lost { .. } => Failure::new(UNAVAILABLE, why.to_string()),
        _ => Failure::new(NO, why.to_string()),
    }
}

/// Waits until the new node has the locks of all partitions.
async fn bring_up_to_date(
    replacement: &Replacement,
    nodes: &Connected<impl NodeClient>,
    to: &Mark,
) -> Result<(), Failure> {
    let (mut most, mut rose, all) = (0, Instant::now(), usize::from(to.partitions));
    loop {
        let votes = replacement.votes(nodes, to).await;
        match &votes {
            Ok(votes) if *votes == all => return Ok(()),
            Ok(votes) if *votes > most => {
                (most, rose) = (*votes, Instant::now());
                write_note(&format!("{} has the locks of {votes} of {all} partitions", replacement.new));
            }
            _ => {}
        }
        if rose.elapsed() > SILENCE_MAX {
            let why = votes.err().map(|lost| format!(" ({})", lost.0)).unwrap_or_default();
            let what = format!(
                "{} replaced {}, but has had only {most} of {all} partitions for {} s{why}: check that a server runs, \
                 and repeat the command",
                replacement.new,
                replacement.old,
                SILENCE_MAX.as_secs()
            );
            return Err(Failure::new(UNAVAILABLE, what));
        }
        sleep(PROGRESS_PERIOD).await;
    }
}
