//! Checks of a node in addition to the checks of every Redis: the rights of its user, locks of an earlier version, and
//! classic keys that are shared. Servers run them before they use a node and from time to time afterwards; `fencepost
//! doctor` runs them too.

use super::scripts::CHANNEL;
use crate::node::{
    RedisUrl, Value,
    doctor::{Facts, Finding, Probe, judge_one_of_several, judge_only_one},
};

/// The name of the check for locks of an earlier version.
pub(crate) const LAYOUT: &str = "layout";
/// What the earlier versions kept their locks by.
const EARLIER: &str = "fp:meta";

/// Checks a node over a connection of its own, and changes nothing. `is_only`: the store has no other one. The error
/// says why it cannot be reached and what to do.
pub async fn examine(url: &RedisUrl, is_only: bool) -> Result<Vec<Finding>, String> {
    let mut probe = Probe::connect(url).await?;
    let facts = probe.gather().await?;
    judge(&mut probe, &facts, is_only).await
}

/// The same for a node to which this is a connection, and which runs scripts.
pub(super) async fn examine_again(mut probe: Probe, is_only: bool) -> Result<Vec<Finding>, String> {
    let facts = probe.gather_again().await?;
    judge(&mut probe, &facts, is_only).await
}

async fn judge(probe: &mut Probe, facts: &Facts, is_only: bool) -> Result<Vec<Finding>, String> {
    // The keys of the first partition and of the cluster. No server has this name.
    let read = probe.ask::<Value>(&["STRLEN", "fp:{q0}:h"]).await?;
    let written = probe.ask::<Value>(&["HDEL", "fp:q:servers", "doctor"]).await?;
    let sent = probe.ask::<Value>(&["PUBLISH", &format!("{CHANNEL}doctor"), ""]).await?;
    let earlier = probe.ask::<u64>(&["EXISTS", EARLIER]).await?;
    let mark = probe.ask::<Vec<u8>>(&["GETRANGE", "fp:q:node", "0", "15"]).await?;
    let prefix = probe.ask::<Option<Vec<u8>>>(&["GET", "fp:q:classic"]).await?;
    let layout = layout(earlier == Ok(1), mark.ok().and_then(|mark| mark.try_into().ok()).map(u128::from_be_bytes));
    let classic = prefix.as_ref().ok().and_then(|prefix| classic(prefix.as_deref()?));
    let refused = read.and(written).and(prefix).err();
    let own = [keys(refused, is_only), channels(sent.err()), layout].into_iter().chain(classic);
    Ok(if is_only { judge_only_one(facts, own) } else { judge_one_of_several(facts, own) })
}

/// `store`: the id of the store that the node keeps, which its servers tell too.
fn layout(has_earlier: bool, store: Option<u128>) -> Finding {
    if has_earlier {
        return Finding::error(
            LAYOUT,
            format!("locks of an earlier version of Fencepost are here ({EARLIER})"),
            "this version cannot read these locks and could grant them a second time, so servers do not use this Redis",
            "drain all servers of that version, wait until their leases have ended, and delete the keys that begin \
             with fp: (or name an empty database); new tokens are above the earlier ones, unless a client gave a \
             min_token above the clock: it has to give it again",
        );
    }
    let found = store.map_or("no locks yet".to_owned(), |id| format!("locks of this version, store {id:032x}"));
    Finding::ok(LAYOUT, found)
}

/// Empty: servers are to share no keys.
fn classic(prefix: &[u8]) -> Option<Finding> {
    let prefix = String::from_utf8_lossy(prefix);
    let found = format!("all servers share locks with classic clients: --classic-prefix {prefix:?} (fp:q:classic)");
    (!prefix.is_empty()).then(|| Finding::ok("classic", found))
}

fn keys(refused: Option<String>, is_only: bool) -> Finding {
    let without =
        if is_only { "servers have no store" } else { "this node keeps no locks, and no other node may fail" };
    match refused {
        None => Finding::ok("keys", "keys that begin with fp: may be read and written"),
        Some(why) if why.starts_with("WRONGTYPE") => Finding::error(
            "keys",
            format!("a key that begins with fp: does not belong to Fencepost ({why})"),
            format!("another program uses these key names: {without}"),
            "use another database for locks, or remove the keys that are not Fencepost's",
        ),
        Some(why) if !why.starts_with("NOPERM") => Finding::error(
            "keys",
            format!("keys that begin with fp: cannot be written now ({why})"),
            "this Redis counts as down",
            "see the other findings: role, replicas, memory, persistence",
        ),
        Some(why) => Finding::error(
            "keys",
            format!("keys that begin with fp: may not be read and written ({why})"),
            without,
            "grant it: ACL SETUSER <user> ~fp:* +@read +@write",
        ),
    }
}

fn channels(refused: Option<String>) -> Finding {
    match refused {
        None => Finding::ok("channels", "messages may be sent"),
        Some(why) => Finding::warning(
            "channels",
            format!("messages may not be sent ({why})"),
            "servers send each other commands and answers over these channels: if no Redis allows that, each server \
             answers only for the locks that it leads",
            format!("grant it: ACL SETUSER <user> +@pubsub &{CHANNEL}*"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::doctor::Severity;

    #[test]
    fn what_the_user_may_not_do_is_found() {
        let no = || Some("NOPERM no".to_owned());
        assert_eq!((keys(None, true).severity, channels(None).severity), (Severity::Ok, Severity::Ok));
        assert_eq!((keys(no(), false).severity, channels(no()).severity), (Severity::Error, Severity::Warning));
        assert!(keys(no(), true).change.contains("~fp:*") && channels(no()).change.contains("&fp:q:to:*"));
        assert!(keys(Some("WRONGTYPE x".to_owned()), true).found.contains("does not belong to Fencepost"));
        let no_replicas = keys(Some("NOREPLICAS x".to_owned()), true);
        assert!(no_replicas.severity == Severity::Error && !no_replicas.change.contains("ACL"), "{no_replicas:?}");
    }

    #[test]
    fn one_redis_is_not_told_about_others() {
        let [only, one_of_several] =
            [true, false].map(|is_only| keys(Some("NOPERM no".to_owned()), is_only).at_stake.contains("no other node"));
        assert!(!only && one_of_several);
    }

    #[test]
    fn locks_of_an_earlier_version_are_an_error() {
        assert_eq!([(false, None), (false, Some(1))].map(|(old, new)| layout(old, new).severity), [Severity::Ok; 2]);
        assert_eq!([(true, None), (true, Some(1))].map(|(old, new)| layout(old, new).severity), [Severity::Error; 2]);
    }
}
