//! The checks of a Redis that only this store needs, beside those of every node: whether servers can reach each other
//! over its channels, and whether its data is laid out for this version.

use super::{
    LAYOUT,
    keys::{self, BUCKETS},
    scripts::CHANNEL,
};
use crate::node::{
    RedisUrl, Value,
    doctor::{Facts, Finding, Probe, judge as judge_all},
};

/// The facts of these checks. Where Redis refused a question, the error is its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFacts {
    /// Whether messages may be sent on the channels of servers.
    pub channels: Result<(), String>,
    /// The content of the meta key; none if there is no meta key.
    pub meta: Result<Option<Meta>, String>,
}

/// What the meta key fixes for all servers on a Redis. A field that it lacks is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Into how many buckets the names of locks are divided.
    pub buckets: String,
    /// The version of the layout.
    pub layout: String,
    /// The prefix of classic locks, which may be none; nothing, if that is not fixed yet.
    pub classic: Option<String>,
}

/// Checks a Redis over a connection of its own. The error says why it cannot be reached and what to do.
pub async fn examine(url: &RedisUrl) -> Result<Vec<Finding>, String> {
    let mut probe = Probe::connect(url).await?;
    let facts = probe.gather().await?;
    Ok(judge(&facts, &gather(&mut probe).await?))
}

/// Gathers the facts of these checks. An error says that the connection does not hold.
pub(super) async fn gather(probe: &mut Probe) -> Result<StoreFacts, String> {
    let meta = probe.ask::<[Option<String>; 3]>(&["HMGET", keys::META, "buckets", "layout", "classic"]).await?;
    let meta = meta.map(|[buckets, layout, classic]| {
        let is_there = buckets.is_some() || layout.is_some();
        let [buckets, layout] = [buckets, layout].map(Option::unwrap_or_default);
        is_there.then_some(Meta { buckets, layout, classic })
    });
    // Nobody listens there.
    let channels = probe.ask::<Value>(&["PUBLISH", &format!("{CHANNEL}doctor"), ""]).await?.map(drop);
    Ok(StoreFacts { channels, meta })
}

/// All findings about a Redis.
pub fn judge(facts: &Facts, own: &StoreFacts) -> Vec<Finding> {
    judge_all(facts, [channels(own), layout(own)])
}

fn channels(facts: &StoreFacts) -> Finding {
    match &facts.channels {
        Ok(()) => Finding::ok("channels", "messages may be sent"),
        Err(why) => Finding::warning(
            "channels",
            format!("messages may not be sent ({why})"),
            "servers that share this Redis hear nothing of each other: waiters are served within a second instead of \
             at once, streams learn of a loss by their next renewal, watchers miss events",
            format!("grant it: ACL SETUSER <user> +@pubsub &{CHANNEL}*"),
        ),
    }
}

fn layout(facts: &StoreFacts) -> Finding {
    let ours = (BUCKETS.to_string(), LAYOUT);
    match &facts.meta {
        Ok(None) => Finding::ok("layout", "no locks yet: the first server writes the meta key"),
        Ok(Some(Meta { buckets, layout, .. })) if (buckets, layout.as_str()) == (&ours.0, ours.1) => {
            Finding::ok("layout", format!("the meta key is ours: {buckets} buckets, layout {layout}"))
        }
        Ok(Some(Meta { buckets, layout, .. })) => Finding::error(
            "layout",
            format!("the meta key fp:meta says {buckets:?} buckets, layout {layout:?}"),
            format!("this version has {} buckets, layout {}: a server refuses every command", ours.0, ours.1),
            "use another database, or the version of the server that wrote it",
        ),
        Err(why) if why.starts_with("WRONGTYPE") => Finding::error(
            "layout",
            format!("the meta key fp:meta is not one of ours ({why})"),
            "something else uses names that begin with fp:; a server refuses every command",
            "use another database for locks, or remove what is not Fencepost's",
        ),
        Err(why) => Finding::warning(
            "layout",
            format!("the meta key could not be read ({why})"),
            "a server that may not read and write keys that begin with fp: refuses every command",
            "grant it: ACL SETUSER <user> ~fp:* +@read +@write",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::doctor::Severity::{self, Error, Ok as Fine, Warning};

    #[track_caller]
    fn assert_found(finding: &Finding, severity: Severity, words: &str) {
        assert_eq!(finding.severity, severity, "{finding:?}");
        assert!(format!("{} {}", finding.found, finding.at_stake).contains(words), "{words:?} is not in {finding:?}");
        let silent = finding.at_stake.is_empty() && finding.change.is_empty();
        assert_eq!(silent, severity == Fine, "{finding:?}");
    }

    #[test]
    fn what_the_store_needs_beside_a_node() {
        let meta = |buckets: &str, layout: &str| {
            Ok(Some(Meta { buckets: buckets.to_owned(), layout: layout.to_owned(), classic: None }))
        };
        let no = || "NOPERM no".to_owned();
        let well = StoreFacts { channels: Ok(()), meta: meta("1024", LAYOUT) };
        assert_found(&channels(&well), Fine, "may be sent");
        assert_found(&layout(&well), Fine, "ours");
        assert_found(&channels(&StoreFacts { channels: Err(no()), ..well.clone() }), Warning, "NOPERM");
        let of = |meta| layout(&StoreFacts { meta, ..well.clone() });
        assert_found(&of(Ok(None)), Fine, "no locks yet");
        assert_found(&of(Err(no())), Warning, "NOPERM");
        assert_found(&of(Err("WRONGTYPE x".to_owned())), Error, "not one of ours");
        assert_found(&of(meta("64", "2")), Error, "\"64\" buckets");
    }
}
