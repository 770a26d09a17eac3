//! Checks a Redis Cluster: whether its members name one primary of the slot, and would name another one in time if it
//! failed.

use super::Finding;
use crate::node::{
    ClusterUrl, RedisUrl,
    find::{
        Cluster, Said,
        cluster_vote::{Count, View, count},
    },
};
use std::collections::BTreeSet;

/// With fewer primaries, those that are left elect nobody when one fails.
const PRIMARIES_MIN: usize = 3;

/// Asks the members of a Redis Cluster. Beside the findings it says which Redis is the primary of the slot, or that
/// they name none.
pub async fn examine(url: &ClusterUrl) -> (Vec<Finding>, Result<RedisUrl, String>) {
    let cluster = Cluster::new(url);
    let said = cluster.ask(|_| false).await;
    let found = cluster.primary(&said);
    let mut findings: Vec<Finding> = said.iter().map(each).collect();
    let views: Vec<&View> = said.iter().filter_map(|said| said.view.as_ref().ok()).collect();
    findings.extend(agreement(&views));
    if let Ok(count) = count(&views) {
        findings.extend(slot(&url.what(), count, &views));
    }
    findings.push(match &found {
        Ok(primary) => Finding::ok("primary", format!("the node is {primary}")),
        Err(why) => Finding::error(
            "primary",
            why.clone(),
            "a server connects to no Redis: every call fails with UNAVAILABLE",
            "bring the primaries of the cluster back, give each slot to one of them (CLUSTER NODES), or correct the \
             members in the URL",
        ),
    });
    (findings, found)
}

fn each(Said { address, view, .. }: &Said) -> Finding {
    match view {
        Ok(View { owner, .. }) => {
            Finding::ok("member", format!("{address} names {} (config epoch {})", owner.address, owner.epoch))
        }
        Err(why) => Finding::warning(
            "member",
            format!("{address} names no primary: {why}"),
            "it does not count: a server to which no majority of the primaries answers for 2 s uses no Redis",
            "bring it back; if it left the cluster, take it out of the URL",
        ),
    }
}

fn agreement(views: &[&View]) -> Option<Finding> {
    let owners: BTreeSet<(&str, &str)> =
        views.iter().map(|view| (view.owner.id.as_str(), view.owner.address.as_str())).collect();
    let ids: BTreeSet<&str> = owners.iter().map(|(id, _)| *id).collect();
    if ids.len() < 2 {
        return None;
    }
    let named = owners.iter().map(|(_, address)| *address).collect::<Vec<_>>().join(", ");
    Some(Finding::warning(
        "agreement",
        format!("the members name different primaries: {named}"),
        "servers use the one of the highest config epoch if a majority of the primaries answers",
        "if this lasts for longer than a failover: check that the members reach each other, and read their logs",
    ))
}

/// What is to be said of the slot, which has a primary.
fn slot(what: &str, Count { owner, voters, .. }: Count<'_>, views: &[&View]) -> Vec<Finding> {
    // Only the primary itself says whether it moves the slot.
    let own = views.iter().find(|view| view.id == owner.id).map(|view| &view.owner);
    let replicas: BTreeSet<&str> = views
        .iter()
        .filter(|view| view.owner.id == owner.id)
        .flat_map(|view| view.owner.replicas.iter().map(String::as_str))
        .collect();
    let mut findings = vec![match own.and_then(|own| own.moves_to.as_ref()) {
        None => Finding::ok("slot", format!("{} has {what}", owner.address)),
        Some(to) => Finding::warning(
            "slot",
            format!("{} has {what}, and moves it to the member {to}", owner.address),
            "Redis refuses what needs a key that is not there: calls may fail with UNAVAILABLE until that is done; then \
             the servers write what they have to the other one",
            "finish it: CLUSTER SETSLOT NODE at both, or STABLE to leave it where it is",
        ),
    }];
    findings.push(if replicas.is_empty() {
        Finding::warning(
            "failover",
            format!("the primary of {what} has no replica"),
            "if it fails, there is none to promote",
            "attach a replica: CLUSTER REPLICATE",
        )
    } else {
        let replicas: Vec<&str> = replicas.into_iter().collect();
        Finding::ok("failover", format!("replicas of the primary: {}", replicas.join(", ")))
    });
    findings.push(if voters >= PRIMARIES_MIN {
        Finding::ok("primaries", format!("{voters} primaries have slots and vote"))
    } else {
        Finding::warning(
            "primaries",
            format!("{voters} of the primaries have slots and vote"),
            "if one fails, the others are no majority: they elect no replica, and servers use no Redis until somebody \
             else promotes one, as some services do",
            "spread the slots over three primaries or more, on machines that fail apart",
        )
    });
    findings
}
