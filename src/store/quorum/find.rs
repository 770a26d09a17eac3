//! Finding out which cluster the nodes belong to.

use super::{
    ballot::{Ballot, Stamp, majority},
    message::Request,
    node::{Ask, ClusterId, Mark, Said},
    nodes::{Carrier, Lost},
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
    #[error("the nodes belong to no cluster yet: make one, once, with fencepost quorum create")]
    NoCluster,
    /// Nodes of several clusters.
    #[error("the nodes belong to different clusters: {0}")]
    Different(String),
    /// Fewer than a majority answer with the same list of members.
    #[error("no majority of the nodes says which cluster it belongs to: {0}")]
    NoMajority(String),
    /// The cluster has other nodes.
    #[error("the cluster has the nodes {cluster}, and --store names {given}: name the same, written in the same way")]
    OtherMembers {
        /// Those of the cluster.
        cluster: String,
        /// Those given.
        given: String,
    },
}

/// What the nodes say of their cluster, in their order.
pub async fn marks(carrier: &impl Carrier, nodes: usize) -> Vec<Result<Option<Mark>, Lost>> {
    let ask = async |node| {
        let is_up = timeout(ANSWER_TIME_MAX, carrier.up(node)).await.is_ok();
        // One that is not up answers with the reason.
        let asked = timeout(ANSWER_TIME_MAX, mark_of(carrier, node)).await;
        let late = |why| Lost(format!("no answer in {ANSWER_TIME_MAX:?}{why}"));
        match asked {
            Ok(Err(Lost(why))) if !is_up => Err(late(format!(": {why}"))),
            Ok(asked) => asked,
            Err(_) => Err(late(String::new())),
        }
    };
    join_all((0..nodes).map(ask)).await
}

/// The cluster of which these are the members. A majority of them has to say the same.
///
/// The members have to be the same as well, word by word: a server that counted other nodes would find a majority
/// beside that of the cluster.
pub fn agreed(marks: &[Result<Option<Mark>, Lost>], given: &[Arc<str>]) -> Result<Mark, FindError> {
    let known = || marks.iter().filter_map(|mark| mark.as_ref().ok()?.as_ref());
    let each = || given.iter().zip(marks).map(|(member, mark)| format!("{member}: {}", in_words(mark)));
    let all = || each().collect::<Vec<_>>().join("; ");
    let Some(first) = known().next() else {
        // Whoever does not answer may know one.
        let is_sure = marks.iter().flatten().count() >= majority(given.len());
        return Err(if is_sure { FindError::NoCluster } else { FindError::NoMajority(all()) });
    };
    if known().any(|mark| mark.cluster != first.cluster) {
        return Err(FindError::Different(all()));
    }
    let has_majority = |mark: &&Mark| known().filter(|other| other == mark).count() >= majority(mark.members.len());
    let mark = known().filter(has_majority).max_by_key(|mark| mark.list).ok_or_else(|| FindError::NoMajority(all()))?;
    let sorted = |members: &[Arc<str>]| {
        let mut members = members.to_vec();
        members.sort();
        members.join(", ")
    };
    let (cluster, given) = (sorted(&mark.members), sorted(given));
    if cluster == given { Ok(mark.clone()) } else { Err(FindError::OtherMembers { cluster, given }) }
}

/// What a node knows of its cluster. Changes nothing.
async fn mark_of(carrier: &impl Carrier, node: usize) -> Result<Option<Mark>, Lost> {
    // No cluster has this id, so the node refuses, and says which cluster it belongs to.
    let cluster = match refusal(carrier, node, ClusterId(Uuid::new_v4().as_u128())).await? {
        Said::Unmarked => return Ok(None),
        Said::Other(cluster) => cluster,
        said => return Err(strange(&said)),
    };
    // No list has the number 0, so the node refuses, and shows its list.
    match refusal(carrier, node, cluster).await? {
        Said::List(mark) => Ok(Some(mark)),
        said => Err(strange(&said)),
    }
}

async fn refusal(carrier: &impl Carrier, node: usize, cluster: ClusterId) -> Result<Said, Lost> {
    let fresh = Stamp(Uuid::new_v4().as_u128());
    let request = Request::Promise(Ballot::default());
    let said = carrier.carry(node, vec![Ask::OfPartition { cluster, list: 0, partition: 0, fresh, request }]).await?;
    said.into_iter().next().unwrap_or_else(|| Err("no answer".to_owned())).map_err(Lost)
}

fn strange(said: &Said) -> Lost {
    Lost(format!("it answered {said:?}"))
}

fn in_words(mark: &Result<Option<Mark>, Lost>) -> String {
    match mark {
        Ok(None) => "no cluster".to_owned(),
        Ok(Some(mark)) => format!("cluster {:032x}, list {}", mark.cluster.0, mark.list),
        Err(Lost(why)) => why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(cluster: u128, list: u64, members: &[&str]) -> Result<Option<Mark>, Lost> {
        let members = members.iter().map(|member| Arc::from(*member)).collect();
        Ok(Some(Mark { cluster: ClusterId(cluster), partitions: 4, list, members }))
    }

    fn of(marks: &[Result<Option<Mark>, Lost>], given: &[&str]) -> Result<u64, FindError> {
        let given: Vec<Arc<str>> = given.iter().map(|member| Arc::from(*member)).collect();
        agreed(marks, &given).map(|mark| mark.list)
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
    fn a_list_counts_when_a_majority_has_it() {
        let (abc, abd) = (["a", "b", "c"], ["a", "b", "d"]);
        let (old, new) = (|| mark(1, 1, &abc), || mark(1, 2, &abd));
        assert_eq!(of(&[new(), old(), old()], &abc), Ok(1), "its replacement was broken off");
        assert_eq!(of(&[new(), new(), old()], &abd), Ok(2));
        let other = FindError::OtherMembers { cluster: "a, b, d".to_owned(), given: "a, b, c".to_owned() };
        assert_eq!(of(&[new(), new(), old()], &abc), Err(other));
    }
}
