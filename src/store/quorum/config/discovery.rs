//! Discovery: finds out which cluster the nodes belong to.

use super::bootstrap::CreateError;
use crate::store::quorum::{
    nodes::client::{Lost, NodeClient},
    paxos::{
        ballot::{Ballot, Stamp, majority},
        message::Request,
        node::{ClusterId, Mark, NodeAnswer, NodeRequest},
    },
};
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use uuid::Uuid;

/// How long a node may take to be reached, and to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Why it is not known which cluster the nodes belong to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The nodes that answer belong to none.
    #[error("the Redis servers keep no store yet: create one, only once, with fencepost quorum create")]
    NoCluster,
    /// The only node cannot be made a cluster.
    #[error(transparent)]
    NotMade(#[from] CreateError),
    /// Nodes of several clusters.
    #[error("the Redis servers keep different stores: {0}")]
    Different(String),
    /// Fewer than a majority answer with the same list of members; with one node: it does not answer.
    #[error("{0}")]
    NoMajority(String),
    /// A node cannot be reached as the others are.
    #[error("{0}")]
    Access(String),
    /// The cluster has other nodes.
    #[error("the store is on {cluster}, but --store names {given}: name the same servers, spelled the same way")]
    OtherMembers {
        /// Those of the cluster.
        cluster: String,
        /// Those given.
        given: String,
    },
}

/// What the nodes say of their cluster, in their order.
pub async fn marks(client: &impl NodeClient, nodes: usize) -> Vec<Result<Option<Mark>, Lost>> {
    join_all((0..nodes).map(|node| when_up(client, node, mark_of(client, node)))).await
}

/// Asks a node when it can be reached, unless that takes too long.
pub(super) async fn when_up<T>(
    client: &impl NodeClient,
    node: usize,
    answer: impl Future<Output = Result<T, Lost>>,
) -> Result<T, Lost> {
    let _ = timeout(ANSWER_TIME_MAX, client.up(node)).await;
    // One that is not up answers with the reason: it may have refused this server, so it is not called silent.
    match timeout(ANSWER_TIME_MAX, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Lost(format!("no answer in {ANSWER_TIME_MAX:?}"))),
    }
}

impl FindError {
    /// Too few of so many nodes say the same: `why` is what each of them says.
    pub(crate) fn no_majority(nodes: usize, why: &str) -> Self {
        Self::NoMajority(match nodes {
            1 => format!("this Redis does not say which store it keeps: {why}"),
            _ => format!("no majority of the Redis servers agrees on the store: {why}"),
        })
    }
}

/// The cluster that these nodes tell of: its newest list that a majority of the list's members has.
///
/// Only the list says who is a member: a server that counted other nodes would find a majority beside that of the
/// cluster. `given` are the members by the word of an operator: they have to be those of the list, or of an earlier
/// one.
pub fn agreed(named: &[Arc<str>], marks: &[Result<Option<Mark>, Lost>], given: &[Arc<str>]) -> Result<Mark, FindError> {
    // Each server may have another name for the only node.
    if let ([Ok(Some(mark))], [_]) = (marks, given)
        && mark.members.len() == 1
    {
        return Ok(Mark { members: given.into(), ..mark.clone() });
    }
    let mark = present(named, marks)?;
    let others = given.iter().filter(|member| !mark.members.contains(member)).count();
    // Each replacement has changed one, and a rebuild none.
    let replaced = usize::try_from(mark.list.saturating_sub(1)).unwrap_or(usize::MAX);
    if given.len() == mark.members.len() && others <= replaced && others < given.len() {
        return Ok(mark);
    }
    let sorted = |members: &[Arc<str>]| {
        let mut members = members.to_vec();
        members.sort();
        members.join(", ")
    };
    Err(FindError::OtherMembers { cluster: sorted(&mark.members), given: sorted(given) })
}

/// The same, whoever an operator takes for the members.
pub(crate) fn present(named: &[Arc<str>], marks: &[Result<Option<Mark>, Lost>]) -> Result<Mark, FindError> {
    let known = || named.iter().zip(marks).filter_map(|(name, mark)| Some((name, mark.as_ref().ok()?.as_ref()?)));
    let each = || named.iter().zip(marks).map(|(member, mark)| format!("{member}: {}", in_words(mark)));
    let all = || each().collect::<Vec<_>>().join("; ");
    let Some((_, first)) = known().next() else {
        // Whoever does not answer may know one.
        let is_sure = marks.iter().flatten().count() >= majority(named.len());
        return Err(if is_sure { FindError::NoCluster } else { FindError::no_majority(named.len(), &all()) });
    };
    if known().any(|(_, mark)| mark.cluster != first.cluster) {
        return Err(FindError::Different(all()));
    }
    let has_majority = |list: &&Mark| {
        let members = known().filter(|(name, mark)| mark == list && list.members.contains(name));
        members.count() >= majority(list.members.len())
    };
    // By the list of a rebuild goes that rebuild alone: until it is done, nobody serves.
    let lists = known().map(|(_, mark)| mark).filter(|mark| mark.rebuild.is_none()).filter(has_majority);
    lists.max_by_key(|mark| mark.list).cloned().ok_or_else(|| FindError::no_majority(named.len(), &all()))
}

/// What a node knows of its cluster. Changes nothing.
async fn mark_of(client: &impl NodeClient, node: usize) -> Result<Option<Mark>, Lost> {
    // No cluster has this id, so the node refuses, and says which cluster it belongs to.
    let cluster = match refusal(client, node, ClusterId(Uuid::new_v4().as_u128())).await? {
        NodeAnswer::Unmarked => return Ok(None),
        NodeAnswer::Other(cluster) => cluster,
        answer => return Err(strange(&answer)),
    };
    // No list has the number 0, so the node refuses, and shows its list.
    match refusal(client, node, cluster).await? {
        NodeAnswer::List(mark) => Ok(Some(mark)),
        answer => Err(strange(&answer)),
    }
}

async fn refusal(client: &impl NodeClient, node: usize, cluster: ClusterId) -> Result<NodeAnswer, Lost> {
    let fresh = Stamp(Uuid::new_v4().as_u128());
    let request = Request::Promise(Ballot::default());
    let answers =
        client.send(node, vec![NodeRequest::OfPartition { cluster, list: 0, partition: 0, fresh, request }]).await?;
    answers.into_iter().next().unwrap_or_else(|| Err("no answer".to_owned())).map_err(Lost)
}

fn strange(answer: &NodeAnswer) -> Lost {
    Lost(format!("unexpected answer {answer:?}"))
}

fn in_words(mark: &Result<Option<Mark>, Lost>) -> String {
    match mark {
        Ok(None) => "no store".to_owned(),
        Ok(Some(Mark { cluster, list, rebuild: Some(_), .. })) => {
            format!("store {:032x}, list {list}, of an unfinished rebuild", cluster.0)
        }
        Ok(Some(Mark { cluster, list, .. })) => format!("store {:032x}, list {list}", cluster.0),
        Err(Lost(why)) => why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(cluster: u128, list: u64, members: &[&str]) -> Result<Option<Mark>, Lost> {
        let members = members.iter().map(|member| Arc::from(*member)).collect();
        Ok(Some(Mark { cluster: ClusterId(cluster), partitions: 4, list, members, rebuild: None }))
    }

    fn names(members: &[&str]) -> Vec<Arc<str>> {
        members.iter().map(|member| Arc::from(*member)).collect()
    }

    fn of(marks: &[Result<Option<Mark>, Lost>], given: &[&str]) -> Result<u64, FindError> {
        agreed(&names(given), marks, &names(given)).map(|mark| mark.list)
    }

    #[test]
    fn a_majority_says_which_cluster_it_is() {
        let (abc, silent) = (["a", "b", "c"], || Err(Lost("away".to_owned())));
        let old = || mark(1, 1, &abc);
        assert_eq!(of(&[old(), old(), silent()], &abc), Ok(1));
        assert_eq!(of(&[old(), old(), Ok(None)], &["c", "b", "a"]), Ok(1));
        assert!(matches!(of(&[old(), Ok(None), silent()], &abc), Err(FindError::NoMajority(_))));
        assert!(matches!(of(&[Ok(None), silent(), silent()], &abc), Err(FindError::NoMajority(_))));
        assert_eq!(of(&[Ok(None), Ok(None), silent()], &abc), Err(FindError::NoCluster));
        assert!(matches!(of(&[old(), old(), mark(2, 1, &abc)], &abc), Err(FindError::Different(_))));
    }

    #[test]
    fn the_only_node_may_have_another_name() {
        let agreed = |known: &[&str], given: &[&str]| agreed(&names(given), &[mark(1, 1, known)], &names(given));
        assert_eq!(
            agreed(&["localhost:6379"], &["127.0.0.1:6379"]).unwrap().members,
            names(&["127.0.0.1:6379"]).into()
        );
        assert!(agreed(&["a", "b", "c"], &["a"]).is_err(), "it is one of three");
    }

    #[test]
    fn a_list_counts_when_a_majority_of_its_own_members_has_it() {
        let (abc, abd) = (["a", "b", "c"], ["a", "b", "d"]);
        let (old, new) = (|| mark(1, 1, &abc), || mark(1, 2, &abd));
        assert_eq!(of(&[new(), old(), old()], &abc), Ok(1), "its replacement was broken off");
        assert_eq!(of(&[new(), new(), old()], &abd), Ok(2));
        let (ace, silent) = (|| mark(1, 3, &["a", "c", "e"]), || Err(Lost("away".to_owned())));
        // The second has forgotten its mark, and got an old one again.
        assert_eq!(agreed(&names(&["a", "b", "c", "d"]), &[new(), old(), old(), new()], &names(&abc)).unwrap().list, 2);
        let refused = of(&[ace(), ace(), silent()], &["a", "b", "c"]);
        assert!(matches!(refused, Err(FindError::NoMajority(_))), "{refused:?}: who has it is no member");
    }

    #[test]
    fn nobody_but_a_rebuild_goes_by_its_list() {
        let abc = ["a", "b", "c"];
        let of_rebuild = || mark(1, 2, &abc).map(|mark| mark.map(|mark| Mark { rebuild: Some(7), ..mark }));
        let refused = of(&[of_rebuild(), of_rebuild(), of_rebuild()], &abc);
        assert!(
            matches!(&refused, Err(FindError::NoMajority(why)) if why.contains("of an unfinished rebuild")),
            "{refused:?}"
        );
        let (old, new) = (|| mark(1, 1, &abc), || mark(1, 3, &abc));
        assert_eq!(of(&[old(), of_rebuild(), old()], &abc), Ok(1), "it was broken off at once");
        assert_eq!(of(&[new(), new(), of_rebuild()], &abc), Ok(3), "it was broken off when all was done");
    }

    #[test]
    fn who_is_given_was_a_member_at_some_time() {
        let (abc, abd) = (["a", "b", "c"], ["a", "b", "d"]);
        let with = |list, members: &[&str], given: &[&str]| {
            let mark = || mark(1, list, members);
            agreed(&names(members), &[mark(), mark(), mark()], &names(given)).map(|mark| mark.list)
        };
        assert_eq!(with(2, &abd, &abc), Ok(2), "one was replaced");
        assert_eq!(with(3, &["a", "d", "e"], &abc), Ok(3), "two were");
        let other = FindError::OtherMembers { cluster: "a, b, c".to_owned(), given: "a, b, d".to_owned() };
        assert_eq!(with(1, &abc, &abd), Err(other), "none was");
        for strange in [&["a", "x", "y"][..], &["a", "b", "d", "c", "e"]] {
            assert!(matches!(with(2, &abd, strange), Err(FindError::OtherMembers { .. })), "{strange:?}");
        }
        assert!(matches!(with(9, &abd, &["x", "y", "z"]), Err(FindError::OtherMembers { .. })));
    }
}
