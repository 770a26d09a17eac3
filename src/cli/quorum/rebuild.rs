//! `quorum rebuild`: disaster recovery from the data that is left after a majority of the Redis servers lost theirs.

use super::{Named, tokens_above, unknown};
use crate::{
    cli::{
        calls::print,
        exit::{Failure, NO, UNAVAILABLE},
        store::StoreArgs,
        write_note,
    },
    store::quorum::{
        config::{
            disaster_recovery::{Rebuild, RebuildError},
            discovery::FindError,
            search::{Search, Sight},
        },
        paxos::node::Mark,
    },
};
use clap::Args;
use std::sync::Arc;

/// What an operator is to do whose nodes are all there and have no majority.
pub(super) const ADVICE: &str = "\
    a majority lost its memory, and the servers cannot continue by themselves: check that no Redis is missing that \
    may still have the locks, then run fencepost quorum rebuild";

#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Only for a store of which a majority lost its memory at once, so that nobody can say what it had; quorum status \
says so. For each partition the best copy that is left goes to all its Redis servers. What that lacks is forgotten: \
a lock may be granted beside a holder that has it still, and only the token tells them apart. Tokens go on 60 s \
above the clocks of this machine and of all the Redis servers. Where these differ, it takes as much longer, up to a \
minute.

All have to be there; where one is gone for good, start an empty Redis at its address. Servers may run: they grant \
nothing meanwhile, and go on by themselves. A rebuild that was broken off is repeated in the same way; the store \
stays down until then. If none of them knows the store any more, make it anew with quorum create.

Exit codes: 0 the store goes on; 1 refused, or --yes is missing; 69 a Redis does not answer, or changed meanwhile.")]
pub(crate) struct RebuildArgs {
    /// Do it. Without this, it is only shown what is left, and nothing is done
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn rebuild(args: &RebuildArgs) -> Result<(), Failure> {
    let named = Named::of_several(&args.store)?;
    let mut search = Search::new(&named.addresses, &named.members);
    let sight = search.look().await.map_err(|why| unknown(&why))?;
    let nodes = search.nodes().ok_or_else(|| Failure::new(UNAVAILABLE, "no node is known"))?;
    let plan = Rebuild::plan(nodes, &sight, &named.members).await.map_err(|why| refused(&why))?;
    let (members, all) = (&plan.from.members, plan.from.partitions);
    for (member, votes) in members.iter().zip(&plan.votes) {
        write_note(&format!("{member} has the locks of {votes} of {all} partitions"));
    }
    if !args.yes {
        let what = format!(
            "{} of {all} partitions have no majority. To continue with the copies that are left, add --yes: locks \
             that these copies lack are forgotten, and may be granted again while their holders still have them. \
             Nothing was done",
            plan.lacking,
        );
        return Err(Failure::new(NO, what));
    }
    let token = tokens_above(nodes).await?;
    let (mut rebuilt, mut records, mut highest) = (vec![0; members.len()], 0, token);
    let list = plan
        .run(nodes, token, |_, partition| {
            rebuilt[partition.from] += 1;
            records += partition.records;
            highest = highest.max(partition.token);
        })
        .await
        .map_err(|why| refused(&why))?;
    let from: Vec<_> = members.iter().zip(&rebuilt).filter(|(_, count)| **count > 0).collect();
    let from: Vec<_> = from.into_iter().map(|(member, count)| format!("{count} from {member}")).collect();
    print(&format!(
        "store {:032x}, list {}: {} partitions were rebuilt ({}), records: {records}; tokens go on above \
         {highest}\n\
         the servers continue by themselves; locks that these copies lacked are forgotten",
        list.cluster.0,
        list.list,
        rebuilt.iter().sum::<usize>(),
        from.join(", "),
    ))
}

/// What to say if a rebuild is the way out, by the lists that nodes have.
pub(super) fn to_be_advised(sight: &Sight, agreed: &Result<Mark, FindError>, members: &[Arc<str>]) -> Option<String> {
    if sight.lists().max_by_key(|mark| mark.list)?.rebuild.is_some() {
        return Some("a rebuild is unfinished: repeat fencepost quorum rebuild, unless one is running".to_owned());
    }
    let are_all_there = members.iter().all(|member| matches!(sight.of(member), Some(Ok(_))));
    (are_all_there && matches!(agreed, Err(FindError::NoMajority(_)))).then(|| ADVICE.to_owned())
}

fn refused(why: &RebuildError) -> Failure {
    match why {
        RebuildError::Unknown(why) => unknown(why),
        RebuildError::Lost { .. } | RebuildError::Changed { .. } => Failure::new(UNAVAILABLE, why.to_string()),
        _ => Failure::new(NO, why.to_string()),
    }
}
