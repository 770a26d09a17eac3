//! Checks of a node in addition to the checks of every Redis: the rights of its user, locks of an earlier version, and
//! classic keys that are shared. Servers run them before they use a node and from time to time afterwards; `fencepost
//! doctor` runs them too.

use super::{keys::Keys, layout};
use crate::node::{
    RedisUrl, Value,
    doctor::{Facts, Finding, Probe, judge_one_of_several, judge_only_one},
};

/// The name of the check for locks of an earlier version.
pub(crate) const LAYOUT: &str = "layout";

/// Checks a node over a connection of its own, and changes nothing. `is_only`: the store has no other one. The error
/// says why it cannot be reached and what to do.
pub async fn examine(url: &RedisUrl, keys: &Keys, is_only: bool) -> Result<Vec<Finding>, String> {
    let probe = Probe::connect(url).await?;
    let facts = probe.gather().await?;
    judge(&probe, facts, keys, is_only).await
}

/// The same for a node to which this is a connection, and which runs scripts. `shares`: its locks are to be shared with
/// classic clients, also if the node does not know that yet.
pub(super) async fn examine_again(
    probe: Probe,
    keys: &Keys,
    is_only: bool,
    shares: bool,
) -> Result<Vec<Finding>, String> {
    let facts = probe.gather_again().await?;
    judge(&probe, Facts { keeps_ttls: shares, ..facts }, keys, is_only).await
}

async fn judge(probe: &Probe, facts: Facts, keys: &Keys, is_only: bool) -> Result<Vec<Finding>, String> {
    // The keys of the first partition and of the cluster. No server has this name.
    let (read, written, sent, earlier, mark, prefix) = tokio::try_join!(
        probe.ask::<Value>(&["STRLEN", &keys.header(0)]),
        probe.ask::<Value>(&["HDEL", &keys.servers(), "doctor"]),
        probe.ask::<Value>(&[probe.publish(), &format!("{}doctor", keys.channels()), ""]),
        layout::earlier(probe, keys),
        probe.ask::<Vec<u8>>(&["GETRANGE", &keys.node(), "0", "15"]),
        probe.ask::<Option<Vec<u8>>>(&["GET", &keys.classic()]),
    )?;
    let layout = layout_of(earlier, mark.map(|mark| mark.try_into().ok().map(u128::from_be_bytes)));
    let classic = prefix.as_ref().ok().and_then(|prefix| classic(prefix.as_deref()?, &keys.classic()));
    let facts = Facts { keeps_ttls: facts.keeps_ttls || classic.is_some(), ..facts };
    let refused = read.and(written).and(prefix).err();
    let rights = rights(refused, keys.base(), is_only);
    let own = [rights, channels(sent.err(), &keys.channels()), layout].into_iter().chain(classic);
    Ok(if is_only { judge_only_one(&facts, own) } else { judge_one_of_several(&facts, own) })
}

/// `store`: the id of the store that the node keeps, which its servers tell too, or why it cannot be read.
fn layout_of(earlier: Option<&str>, store: Result<Option<u128>, String>) -> Finding {
    if let Some(key) = earlier {
        return Finding::error(
            LAYOUT,
            format!("locks of an earlier version of Fencepost are here ({key})"),
            "this version cannot read these locks and could grant them a second time, so servers do not use this Redis",
            "drain all servers of that version, wait until their leases have ended, and delete the keys that begin \
             with fp: (or name an empty database); new tokens are above the earlier ones, unless a client gave a \
             min_token above the clock: it has to give it again",
        );
    }
    match store {
        Ok(None) => Finding::ok(LAYOUT, "no locks yet"),
        Ok(Some(id)) => Finding::ok(LAYOUT, format!("locks of this version, store {id:032x}")),
        Err(why) => Finding::warning(
            LAYOUT,
            format!("whether locks are here could not be checked ({why})"),
            "locks of an earlier version could be granted a second time",
            "see the check of the keys",
        ),
    }
}

/// Empty: servers are to share no keys.
fn classic(prefix: &[u8], key: &str) -> Option<Finding> {
    let prefix = String::from_utf8_lossy(prefix);
    let found = format!("all servers share locks with classic clients: --classic-prefix {prefix:?} ({key})");
    (!prefix.is_empty()).then(|| Finding::ok("classic", found))
}

fn rights(refused: Option<String>, base: &str, is_only: bool) -> Finding {
    let without =
        if is_only { "servers have no store" } else { "this node keeps no locks, and no other node may fail" };
    match refused {
        None => Finding::ok("keys", format!("keys that begin with {base} may be read and written")),
        Some(why) if why.starts_with("WRONGTYPE") => Finding::error(
            "keys",
            format!("a key that begins with {base} does not belong to Fencepost ({why})"),
            format!("another program uses these key names: {without}"),
            "use another database for locks, or remove the keys that are not Fencepost's",
        ),
        Some(why) if has_no_slot(&why) => without_slot("keys", &why),
        Some(why) if !why.starts_with("NOPERM") => Finding::error(
            "keys",
            format!("keys that begin with {base} cannot be written now ({why})"),
            "this Redis counts as down",
            "see the other findings: role, replicas, memory, persistence",
        ),
        Some(why) => Finding::error(
            "keys",
            format!("keys that begin with {base} may not be read and written ({why})"),
            without,
            format!("grant it: ACL SETUSER <user> ~{base}* +@read +@write"),
        ),
    }
}

/// Whether a member of a Redis Cluster refuses because it does not have the slot, or does not serve it: while the slot
/// is moved, and in a failover.
fn has_no_slot(why: &str) -> bool {
    ["ASK", "TRYAGAIN", "MOVED", "CLUSTERDOWN"].iter().any(|code| why.starts_with(code))
}

fn without_slot(check: &'static str, why: &str) -> Finding {
    Finding::warning(
        check,
        format!("the slot of the keys is not served here now ({why})"),
        "until it is served again, here or by another member, this Redis counts as down",
        "wait for the failover or the move of the slot; if there is none, see CLUSTER NODES",
    )
}

fn channels(refused: Option<String>, base: &str) -> Finding {
    match refused {
        None => Finding::ok("channels", "messages may be sent"),
        Some(why) if has_no_slot(&why) => without_slot("channels", &why),
        Some(why) => Finding::warning(
            "channels",
            format!("messages may not be sent ({why})"),
            "servers send each other commands and answers over these channels: if no Redis allows that, each server \
             answers only for the locks that it leads",
            format!("grant it: ACL SETUSER <user> +@pubsub &{base}*"),
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
        assert_eq!(
            (rights(None, "{fp}:", true).severity, channels(None, "{fp}:to:").severity),
            (Severity::Ok, Severity::Ok)
        );
        assert_eq!(
            (rights(no(), "{fp}:", false).severity, channels(no(), "{fp}:to:").severity),
            (Severity::Error, Severity::Warning)
        );
        for why in ["ASK 7963 a:1", "TRYAGAIN later", "MOVED 7963 a:1", "CLUSTERDOWN The cluster is down"] {
            let found = [rights(Some(why.to_owned()), "{fp}:", true), channels(Some(why.to_owned()), "{fp}:to:")];
            assert!(found.iter().all(|it| it.severity == Severity::Warning && it.found.contains(why)), "{found:?}");
        }
        assert_eq!(rights(Some("OOM full".to_owned()), "{fp}:", true).severity, Severity::Error);
        assert!(rights(no(), "{fp}:", true).change.contains("~{fp}:*"));
        assert!(channels(no(), "{fp}:to:").change.contains("&{fp}:to:*"));
        assert!(rights(Some("WRONGTYPE x".to_owned()), "{fp}:", true).found.contains("does not belong to Fencepost"));
        let no_replicas = rights(Some("NOREPLICAS x".to_owned()), "{fp}:", true);
        assert!(no_replicas.severity == Severity::Error && !no_replicas.change.contains("ACL"), "{no_replicas:?}");
    }

    #[test]
    fn one_redis_is_not_told_about_others() {
        let [only, one_of_several] = [true, false]
            .map(|is_only| rights(Some("NOPERM no".to_owned()), "{fp}:", is_only).at_stake.contains("no other node"));
        assert!(!only && one_of_several);
    }

    #[test]
    fn locks_of_an_earlier_version_are_an_error() {
        assert_eq!([None, Some(1)].map(|store| layout_of(None, Ok(store)).severity), [Severity::Ok; 2]);
        let unread = || Err("NOPERM no".to_owned());
        assert_eq!(
            [Ok(None), Ok(Some(1)), unread()].map(|store| layout_of(Some("fp:meta"), store).severity),
            [Severity::Error; 3]
        );
        let unknown = layout_of(None, unread());
        assert!(unknown.severity == Severity::Warning && unknown.found.contains("NOPERM no"), "{unknown:?}");
    }
}
