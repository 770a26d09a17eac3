//! Whether locks work there at all: who it is, what it allows, whose data it holds, what time it has.

use super::{ClockSample, Facts, Finding, Meta};
use crate::store::redis::{LAYOUT, keys::BUCKETS, scripts::CHANNEL};
use std::time::Duration;

/// A difference of clocks below this is not worth a word.
const CLOCK_OFF_MAX: Duration = Duration::from_secs(1);
const VERSION_MIN: (u32, u32) = (7, 0);

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &facts.info {
        Ok(_) => findings.extend([version(facts), role(facts)]),
        Err(why) => findings.push(Finding::error(
            "info",
            format!("INFO is not allowed ({why})"),
            "a restart of Redis would go unnoticed and tokens could repeat, so a server does not connect to it",
            "grant it: ACL SETUSER <user> +info",
        )),
    }
    if facts.info("cluster_enabled") == Some("1") {
        findings.push(Finding::error(
            "cluster",
            "it is in cluster mode (cluster_enabled:1)",
            "keys may lie on other nodes, or move there while a script runs: a server does not connect to it",
            "name a Redis with cluster-enabled no: clusters are not supported yet",
        ));
    }
    findings.extend([scripts(facts), channels(facts), meta(facts), clock(facts)]);
    findings
}

fn version(facts: &Facts) -> Finding {
    let spoken = facts.info("redis_version").unwrap_or("of an unknown version");
    let shown = match facts.info("valkey_version") {
        Some(valkey) => format!("Valkey {valkey}"),
        None => format!("Redis {spoken}"),
    };
    let mut numbers = spoken.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= VERSION_MIN {
        return Finding::ok("version", shown);
    }
    let (major, minor) = VERSION_MIN;
    let at_stake = format!("the scripts need {major}.{minor}: a server does not connect to it");
    Finding::error("version", shown, at_stake, format!("upgrade to Redis {major}.{minor} or later, or Valkey"))
}

fn role(facts: &Facts) -> Finding {
    match facts.info("role") {
        Some("master") => Finding::ok("role", "it is a primary"),
        Some(_) => {
            let of = |name| facts.info(name).unwrap_or("?");
            Finding::error(
                "role",
                format!("it is a replica of {}:{}", of("master_host"), of("master_port")),
                "only the primary can grant locks: a server does not connect to it",
                "name the primary in the URL",
            )
        }
        None => Finding::warning(
            "role",
            "INFO does not say whether it is a primary",
            "a replica cannot grant locks",
            "connect to Redis itself, not to a proxy",
        ),
    }
}

fn scripts(facts: &Facts) -> Finding {
    match &facts.scripts {
        Ok(()) => Finding::ok("scripts", "scripts may be run"),
        Err(why) => Finding::error(
            "scripts",
            format!("scripts may not be run ({why})"),
            "every command on a lock is a script: a server does not connect to it",
            "grant it: ACL SETUSER <user> +@scripting",
        ),
    }
}

fn channels(facts: &Facts) -> Finding {
    match &facts.channels {
        Ok(()) => Finding::ok("channels", "messages may be sent"),
        Err(why) => Finding::warning(
            "channels",
            format!("messages may not be sent ({why})"),
            "servers that share this Redis hear nothing of each other: waiters are served within a second instead of at once, streams learn of \
             a loss by their next renewal, watchers miss events",
            format!("grant it: ACL SETUSER <user> +@pubsub &{CHANNEL}*"),
        ),
    }
}

fn meta(facts: &Facts) -> Finding {
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

fn clock(facts: &Facts) -> Finding {
    let ClockSample { sent, redis, received } = match &facts.clock {
        Ok(sample) => *sample,
        Err(why) => {
            return Finding::error(
                "clock",
                format!("TIME is not allowed ({why})"),
                "leases end by Redis' clock: a server does not connect to it",
                "grant it: ACL SETUSER <user> +time",
            );
        }
    };
    // What the round trip cannot explain.
    let (off, way) = if redis > received { (redis.since(received), "ahead of") } else { (sent.since(redis), "behind") };
    if off <= CLOCK_OFF_MAX {
        return Finding::ok("clock", "Redis' clock and this machine's differ by no more than a second");
    }
    Finding::warning(
        "clock",
        format!("Redis' clock is {:.1} s {way} this machine's", off.as_secs_f64()),
        "no clock but Redis' decides about a lease, but one that is wrong may be set: forward, it ends leases early; back, \
         after data was lost, it can make tokens fall",
        "synchronise both machines (chrony, systemd-timesyncd), and let clocks be slewed, not stepped",
    )
}
