//! Servers of earlier versions have other keys: two of them that serve one Redis would grant one lock twice. So the
//! first server of this version leaves a key that keeps them away, and goes away itself where it finds theirs.

use super::{client::Lost, keys::Keys};
use crate::{domain::limits::STORE_PREFIX_DEFAULT, node::Connection, node::doctor::Probe};
use futures_util::future::try_join;

/// Where versions before the layout with a name kept what a node knows of its cluster.
const EARLIER_NODE: &str = "fp:q:node";
/// Where versions before these kept the layout of their locks.
const EARLIER_META: &str = "fp:meta";
/// To an earlier version, the node belongs to another store, with a list that it cannot read.
const GUARD: &str = "fencepost layout~~~~~~2";

/// The key of an earlier version that has locks at this node, if there is any. The outer error: no answer.
pub(super) async fn earlier(probe: &Probe, keys: &Keys) -> Result<Option<&'static str>, String> {
    if !is_shared(probe, keys) {
        return Ok(None);
    }
    let (meta, node) =
        try_join(probe.ask::<u64>(&["EXISTS", EARLIER_META]), probe.ask::<Option<Vec<u8>>>(&["GET", EARLIER_NODE]))
            .await?;
    // What this user may not read, no server with this user has written.
    let is_other = |node: &Option<Vec<u8>>| node.as_ref().is_some_and(|node| node != GUARD.as_bytes());
    let found = if meta == Ok(1) { Some(EARLIER_META) } else { None };
    Ok(found.or_else(|| node.as_ref().is_ok_and(is_other).then_some(EARLIER_NODE)))
}

/// Keeps earlier versions away from the node, before it is told its cluster. Dropped, it may have done so.
pub(super) async fn claim(connection: &Connection, keys: &Keys) -> Result<(), Lost> {
    let probe = connection.probe();
    if let Some(key) = earlier(&probe, keys).await.map_err(Lost)? {
        return Err(Lost(format!(
            "locks of an earlier version of Fencepost are here ({key}), which this version cannot read: see fencepost \
             doctor"
        )));
    }
    if !is_shared(&probe, keys) {
        return Ok(());
    }
    // In one step: of two versions that come to an empty node at a time, one finds the other.
    let before = probe.ask::<Option<Vec<u8>>>(&["SET", EARLIER_NODE, GUARD, "NX", "GET"]).await.map_err(Lost)?;
    match before {
        Ok(before) if before.as_ref().is_some_and(|before| before != GUARD.as_bytes()) => {
            Err(Lost("a server of an earlier version of Fencepost has come to this node just now".to_owned()))
        }
        Ok(_) => Ok(()),
        // Then no server with this user comes there.
        Err(why) if why.starts_with("NOPERM") => Ok(()),
        Err(why) => Err(Lost(format!("earlier versions of Fencepost cannot be kept away from this node: {why}"))),
    }
}

/// Whether earlier versions would keep the same store: they know no other name, and use no Redis Cluster, where their
/// keys would be in other slots.
fn is_shared(probe: &Probe, keys: &Keys) -> bool {
    keys.store_prefix() == STORE_PREFIX_DEFAULT && !probe.is_in_cluster()
}
