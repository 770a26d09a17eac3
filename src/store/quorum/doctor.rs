//! The checks of one of several nodes, beside those of every Redis: what its user may do.

use super::redis_nodes::CHANNEL;
use crate::node::{
    RedisUrl, Value,
    doctor::{Finding, Probe, judge_one_of_several, judge_only_one},
};

/// Checks a node over a connection of its own, and changes nothing. `is_only`: the store has no other one. The error
/// says why it cannot be reached and what to do.
pub async fn examine(url: &RedisUrl, is_only: bool) -> Result<Vec<Finding>, String> {
    let mut probe = Probe::connect(url).await?;
    let facts = probe.gather().await?;
    // The keys of the first partition and of the cluster. No server has this name.
    let read = probe.ask::<Value>(&["STRLEN", "fp:{q0}:h"]).await?;
    let written = probe.ask::<Value>(&["HDEL", "fp:q:servers", "doctor"]).await?;
    let sent = probe.ask::<Value>(&["PUBLISH", &format!("{CHANNEL}doctor"), ""]).await?;
    let own = [keys(read.and(written).err()), channels(sent.err())];
    Ok(if is_only { judge_only_one(&facts, own) } else { judge_one_of_several(&facts, own) })
}

fn keys(refused: Option<String>) -> Finding {
    match refused {
        None => Finding::ok("keys", "keys that begin with fp: may be read and written"),
        Some(why) if why.starts_with("WRONGTYPE") => Finding::error(
            "keys",
            format!("a key that begins with fp: is not one of ours ({why})"),
            "something else uses these names: the node has no locks, and no other one may be away",
            "use another database for locks, or remove what is not Fencepost's",
        ),
        Some(why) => Finding::error(
            "keys",
            format!("keys that begin with fp: may not be read and written ({why})"),
            "the node has no locks, and no other one may be away",
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
            "servers send each other commands and answers over the channels of the nodes: if no node lets them, each \
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
        assert_eq!((keys(None).severity, channels(None).severity), (Severity::Ok, Severity::Ok));
        assert_eq!((keys(no()).severity, channels(no()).severity), (Severity::Error, Severity::Warning));
        assert!(keys(no()).change.contains("~fp:*") && channels(no()).change.contains("&fp:q:to:*"));
        assert!(keys(Some("WRONGTYPE x".to_owned())).found.contains("not one of ours"));
    }
}
