//! `quorum`: creates a store of several Redis servers, shows its state, replaces one of them, and recovers after a
//! loss.

mod rebuild;
mod replace;

use super::{
    calls::print,
    exit::{COMMAND_LINE, Failure, NO, OUTPUT, UNAVAILABLE},
    look::{ERROR, GOOD, Look, WARNING},
    store::StoreArgs,
    write_note,
};
use crate::{
    clock::{Clock, ProcessClock},
    domain::limits::STORE_PREFIX_DEFAULT,
    store::quorum::{
        config::{
            bootstrap::{CreateError, PARTITIONS, create},
            discovery::{self, FindError},
            replace_node::Replacement,
            search::Search,
            status::{InPartition, survey},
        },
        nodes::{
            addresses::{Addresses, Connected},
            client::Lost,
            connections::RedisNodes,
        },
        paxos::{
            ballot::majority,
            node::{ClusterId, Mark},
            wall_clocks::WallClocks,
        },
    },
};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use uuid::Uuid;

/// The most partitions of a store. Each costs a header in a batch that has a lock of it.
const PARTITIONS_MAX: i64 = 256;
/// Clocks that differ by this much are worth a word.
const APART: Duration = Duration::from_secs(1);

/// A store that keeps locks in a majority of its Redis servers.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QuorumCommand {
    /// Make a store of three or five empty Redis servers, once, before the first server starts
    Create(CreateArgs),
    /// Show which Redis servers of a store have its locks
    Status(StatusArgs),
    /// Replace one of the Redis servers of a store by an empty one, while servers run
    Replace(replace::ReplaceArgs),
    /// Go on with what is left after a majority of the Redis servers of a store lost their memory
    Rebuild(rebuild::RebuildArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
All servers have to be there, with nothing of Fencepost in them. May be repeated until it succeeds; a store that is \
in use is not changed. Exit codes: 0 the store is made; 1 one of them is in use; 69 one does not answer.")]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Into how many partitions to divide the lock names; they never change. A server leads none if there are fewer
    #[arg(
        long, value_name = "COUNT", default_value_t = PARTITIONS,
        value_parser = clap::value_parser!(u16).range(1..=PARTITIONS_MAX)
    )]
    partitions: u16,
}

#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
A Redis has the locks of a partition, a share of the lock names, unless it lost its memory and a server has not \
brought it up to date yet. Exit codes: 0 a majority has the locks of each partition; 1 not of each; 69 no majority \
answers.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    store: StoreArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries out one of them.
pub(super) async fn quorum(command: QuorumCommand) -> Result<(), Failure> {
    match command {
        QuorumCommand::Create(args) => make(&Named::of(&args.store)?, args.partitions).await,
        QuorumCommand::Status(args) => status(&Named::of(&args.store)?, args.json).await,
        QuorumCommand::Replace(args) => replace::replace(&args).await,
        QuorumCommand::Rebuild(args) => rebuild::rebuild(&args).await,
    }
}

/// The Redis servers that --store names.
struct Named {
    addresses: Addresses,
    members: Vec<Arc<str>>,
    /// The option that servers need beside --store, unless the store has the default name.
    prefix: String,
}

impl Named {
    fn of(store: &StoreArgs) -> Result<Self, Failure> {
        let addresses = Addresses::new(store.urls()?).of_store(store.prefix());
        let members = addresses.members();
        if members.len().is_multiple_of(2) {
            let rule = "--store: names an even number of Redis servers: give one, or three, or five";
            return Err(Failure::new(COMMAND_LINE, rule));
        }
        let is_named = store.prefix() != STORE_PREFIX_DEFAULT;
        let prefix = if is_named { format!(" and --store-prefix {}", store.prefix()) } else { String::new() };
        Ok(Self { addresses, members, prefix })
    }

    /// The same, where one is not enough: nobody but its servers has what it lost.
    fn of_several(store: &StoreArgs) -> Result<Self, Failure> {
        let named = Self::of(store)?;
        if named.members.len() > 1 {
            return Ok(named);
        }
        let rule = "--store: with one Redis there is nothing to replace or rebuild: servers bring it up to date, or go on \
                    with what it kept";
        Err(Failure::new(COMMAND_LINE, rule))
    }
}

fn unknown(why: &FindError) -> Failure {
    let code = match why {
        FindError::NoMajority(_) => UNAVAILABLE,
        FindError::Access(_) => COMMAND_LINE,
        FindError::NoCluster | FindError::NotMade(_) | FindError::Different(_) | FindError::OtherMembers { .. } => NO,
    };
    Failure::new(code, why.to_string())
}

async fn make(named: &Named, partitions: u16) -> Result<(), Failure> {
    let connected = Connected::to(&named.addresses, &named.members).map_err(|why| Failure::new(COMMAND_LINE, why))?;
    let marks = discovery::marks(&connected.nodes, named.members.len()).await;
    for (member, mark) in named.members.iter().zip(&marks) {
        let Err(Lost(why)) = mark else { continue };
        let what = format!("{member}: {why}; nothing was done: repeat the command when this is fixed");
        return Err(Failure::new(UNAVAILABLE, what));
    }
    // An earlier try has come so far.
    let begun = marks.into_iter().flatten().flatten().next();
    let is_same = |mark: &Mark| named.members.iter().all(|member| mark.members.contains(member));
    let mark = match begun {
        Some(mark) if mark.members.len() == named.members.len() && is_same(&mark) => {
            if mark.partitions != partitions {
                let begun = mark.partitions;
                let what = format!(
                    "a store with {begun} partitions is there, or was begun, and their number never changes: to \
                     complete it, repeat it with --partitions {begun}"
                );
                return Err(Failure::new(NO, what));
            }
            mark
        }
        Some(mark) => {
            let others = mark.members.join(", ");
            return Err(Failure::new(NO, format!("one of the Redis servers already keeps a store, with {others}")));
        }
        None => {
            let (cluster, members) = (ClusterId(Uuid::new_v4().as_u128()), named.members.clone().into());
            Mark { cluster, partitions, list: 1, members, rebuild: None }
        }
    };
    let token = tokens_above(&connected).await?;
    let code = |why: &CreateError| if matches!(why, CreateError::Lost { .. }) { UNAVAILABLE } else { NO };
    create(&connected.nodes, &mark, token).await.map_err(|why| Failure::new(code(&why), why.to_string()))?;
    let Mark { cluster, members, .. } = mark;
    let names = members.join(", ");
    let needed = match members.len() {
        1 => String::new(),
        all => format!("; {} of {all} must be up", majority(all)),
    };
    let store = format!("store {:032x} was created on {names}", cluster.0);
    print(&format!("{store}: start servers with the same --store{}{needed}", named.prefix))
}

/// What the tokens of a store go on above of which nobody knows the earlier ones. Takes as long as the clocks of this
/// machine and of the Redis servers differ.
async fn tokens_above(nodes: &Connected<Arc<RedisNodes>>) -> Result<u64, Failure> {
    let own = ProcessClock::start().now();
    let mut shown = Vec::with_capacity(nodes.members.len());
    for (node, member) in nodes.members.iter().enumerate() {
        let told = nodes.nodes.clock(node).await;
        shown.push(told.map_err(|why| Failure::new(UNAVAILABLE, format!("{member}: {why}; nothing was done")))?);
    }
    let clocks = WallClocks::of(own, shown);
    let apart = clocks.apart();
    if apart >= APART {
        write_note(&format!(
            "the clocks of this machine and of the Redis servers differ by {} s: synchronize them. The command waits \
             for that long, so that tokens rise",
            apart.as_secs()
        ));
    }
    sleep(apart).await;
    Ok(clocks.tokens_above(Duration::ZERO))
}

#[derive(Debug, Serialize)]
struct Status {
    /// Its id, as servers tell it.
    store: String,
    list: u64,
    partitions: u16,
    nodes: Vec<NodeStatus>,
    /// Partitions whose locks a majority has.
    kept: usize,
    /// What an operator is to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Debug, Serialize)]
struct NodeStatus {
    node: String,
    /// Partitions whose locks it has.
    votes: usize,
    /// Why it does not answer, or not for each partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn status(named: &Named, json: bool) -> Result<(), Failure> {
    let status = ask(named).await?;
    let printed = if json {
        serde_json::to_string(&status)
            .map_err(|error| Failure::new(OUTPUT, format!("cannot encode the status as JSON: {error}")))?
    } else {
        text(&status, Look::of_stdout())
    };
    print(&printed)?;
    if status.kept == usize::from(status.partitions) { Ok(()) } else { Err(Failure::silent(NO)) }
}

async fn ask(named: &Named) -> Result<Status, Failure> {
    let mut search = Search::new(&named.addresses, &named.members);
    let sight = search.look().await.map_err(|why| unknown(&why))?;
    let agreed = sight.agreed(&named.members);
    let begun = Replacement::begun(&sight, agreed.as_ref().ok()).map(|Replacement { old, new }| {
        format!("the replacement of {old} by {new} is unfinished: repeat fencepost quorum replace {old} {new}")
    });
    let begun = begun.or_else(|| rebuild::to_be_advised(&sight, &agreed, &named.members));
    let mark = agreed.map_err(|why| {
        if let (FindError::NoCluster, [only]) = (&why, &named.members[..]) {
            return Failure::new(NO, format!("{only} keeps no store yet: the first server that uses it creates one"));
        }
        let Failure { code, message } = unknown(&why);
        Failure::new(code, begun.iter().fold(message, |message, begun| format!("{message}; {begun}")))
    })?;
    let is_named = mark.members.iter().all(|member| named.members.contains(member));
    let rename = || format!("--store names other nodes: change it to {}", mark.members.join(","));
    let advice = begun.or_else(|| (!is_named).then(rename));
    let mut voters = vec![0; usize::from(mark.partitions)];
    let mut told = Vec::new();
    for member in &*mark.members {
        let connected = search.nodes().and_then(|nodes| Some((&nodes.nodes, nodes.number_of(member)?)));
        let asked = match (sight.of(member), connected) {
            (Some(Ok(Some(known))), Some((client, node))) if is_of(known, &mark) => survey(client, node, &mark).await,
            (Some(Ok(Some(known))), _) if known.list > mark.list => {
                Err(Lost(format!("it has a newer member list, {}", known.list)))
            }
            (Some(Err(lost)), _) => Err(lost.clone()),
            _ => Err(Lost("it does not know the store's Redis servers yet".to_owned())),
        };
        let partitions = asked.as_deref().unwrap_or_default();
        let votes = partitions.iter().filter(|it| matches!(it, InPartition::Votes(_))).count();
        for (count, it) in voters.iter_mut().zip(partitions) {
            *count += usize::from(matches!(it, InPartition::Votes(_)));
        }
        let broken = partitions.iter().find_map(|it| if let InPartition::Broken(why) = it { Some(why) } else { None });
        let error = asked.as_ref().err().map(|Lost(why)| why).or(broken).cloned();
        told.push(NodeStatus { node: member.to_string(), votes, error });
    }
    let enough = majority(mark.members.len());
    let kept = voters.iter().filter(|voters| **voters >= enough).count();
    let is_lost = kept < voters.len() && told.iter().all(|it| it.error.is_none());
    let advice = match is_lost {
        true if mark.members.len() > 1 => Some(rebuild::ADVICE.to_owned()),
        true => Some("Redis lost its memory: the servers bring it up to date, or go on with what it kept".to_owned()),
        false => advice,
    };
    let Mark { cluster, list, partitions, .. } = mark;
    Ok(Status { store: format!("{:032x}", cluster.0), list, partitions, nodes: told, kept, advice })
}

/// Whether this is what a member has that goes by the list. The only one may be called otherwise there.
fn is_of(known: &Mark, list: &Mark) -> bool {
    let is_only = known.members.len() == 1 && list.members.len() == 1;
    known == list || is_only && (known.cluster, known.list) == (list.cluster, list.list)
}

fn text(status: &Status, look: Look) -> String {
    let Status { store, list, partitions, nodes, kept, advice } = status;
    let (all, width) = (usize::from(*partitions), nodes.iter().map(|it| it.node.len()).max().unwrap_or(0));
    let mut lines = vec![format!("store {store}, list {list}, {partitions} partitions")];
    for NodeStatus { node, votes, error } in nodes {
        let (style, state) = match error {
            Some(why) => (ERROR, why.clone()),
            None if *votes == all => (GOOD, "has the locks of all partitions".to_owned()),
            None if *kept < all => (WARNING, format!("has the locks of {votes} partitions")),
            None => (WARNING, format!("has the locks of {votes} partitions; the servers bring it up to date")),
        };
        lines.push(format!("{node:<width$}  {}", look.paint(style, &state)));
    }
    lines.extend(match (all - kept, nodes.len()) {
        // Its own line says it.
        (_, 1) => None,
        (0, _) => Some("a majority has the locks of all partitions".to_owned()),
        (lacking, _) => {
            Some(look.paint(ERROR, &format!("{lacking} partitions have no majority: their locks are unavailable")))
        }
    });
    lines.extend(advice.as_ref().map(|advice| look.paint(WARNING, advice)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_names_what_each_node_lacks() {
        let node = |node: &str, votes, error: Option<&str>| NodeStatus {
            node: node.to_owned(),
            votes,
            error: error.map(str::to_owned),
        };
        let nodes = vec![node("a:6379", 4, None), node("bb:6379", 1, None), node("c:1", 0, Some("it is away"))];
        let status = Status {
            store: "7".to_owned(),
            list: 1,
            partitions: 4,
            nodes,
            kept: 1,
            advice: Some("do this".to_owned()),
        };
        let expected = "store 7, list 1, 4 partitions\n\
                        a:6379   has the locks of all partitions\n\
                        bb:6379  has the locks of 1 partitions\n\
                        c:1      it is away\n\
                        3 partitions have no majority: their locks are unavailable\n\
                        do this";
        assert_eq!(text(&status, Look::PLAIN), expected);
        let whole = text(&Status { kept: 4, ..status }, Look::PLAIN);
        assert!(whole.contains("has the locks of 1 partitions; the servers bring it up to date\n"), "{whole}");
        for (votes, says) in [(4, "has the locks of all partitions"), (1, "has the locks of 1 partitions")] {
            let status = Status {
                store: "7".to_owned(),
                list: 1,
                partitions: 4,
                nodes: vec![node("a:6379", votes, None)],
                kept: votes,
                advice: None,
            };
            assert_eq!(text(&status, Look::PLAIN), format!("store 7, list 1, 4 partitions\na:6379  {says}"));
        }
    }
}
