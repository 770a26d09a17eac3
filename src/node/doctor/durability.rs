//! Causes of lost data and refused writes: eviction, full memory, a crash, a power loss, a failover.

use super::{EVICTION, Facts, Finding};

/// What becomes of what the only Redis has forgotten.
const AFTERWARDS: &str = "Running servers write the data back. If a server dies at the same time, the locks that it \
                          led and Redis forgot are lost: they can have a second holder, with a higher token unless \
                          clocks were set back";

/// Percent of maxmemory in use above which a warning is given.
const FULL: u64 = 80;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(why) = &facts.settings {
        let change = match facts.service() {
            Some(service) => {
                format!("nothing: {} does not allow it; its pages say what is written to disk", service.name)
            }
            None => "allow it (ACL SETUSER <user> +config|get), or look at these settings where the service is managed"
                .to_owned(),
        };
        findings.push(Finding::warning(
            "config",
            format!("CONFIG GET is not allowed ({why})"),
            "appendfsync, save and min-replicas-to-write could not be checked: what a power loss or a failover forgets \
             is unknown",
            change,
        ));
    }
    findings.extend([eviction(facts), memory(facts), persistence(facts), replicas(facts)]);
    findings
}

/// The same for one of several of which a majority has everything: what it forgets, the others have.
pub(super) fn judge_one_of_several(facts: &Facts) -> Vec<Finding> {
    let persistence = match failed_write(facts) {
        Some(what) => Finding::error(
            "persistence",
            format!("the last write of the {what} failed"),
            "Redis refuses writes until one succeeds: it counts as down, and no other one may fail",
            "look at its log; most often the disk is full or the folder not writable",
        ),
        None => {
            Finding::ok("persistence", "not needed: if this Redis loses its memory, the others bring it up to date")
        }
    };
    vec![eviction(facts), memory(facts), persistence]
}

/// What could not be written to disk the last time.
fn failed_write(facts: &Facts) -> Option<&'static str> {
    let failed = [("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")];
    failed.into_iter().find(|(field, _)| facts.info(field) == Some("err")).map(|(_, what)| what)
}

fn policy(facts: &Facts) -> Option<&str> {
    facts.setting("maxmemory-policy").or_else(|| facts.info("maxmemory_policy"))
}

fn eviction(facts: &Facts) -> Finding {
    let change = match facts.service() {
        Some(service) => format!("set maxmemory-policy to noeviction {} ({})", service.settings, service.name),
        None => "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; keep caches in another Redis"
            .to_owned(),
    };
    match policy(facts) {
        Some("noeviction") => Finding::ok(EVICTION, "maxmemory-policy is noeviction"),
        Some(policy) if policy.starts_with("volatile-") && facts.keeps_ttls => Finding::error(
            EVICTION,
            format!("maxmemory-policy is {policy}, and locks are shared with classic clients"),
            "when memory is short, Redis silently removes keys with a TTL, and classic locks have one: a lock that is \
             held can be free, and a second holder gets it",
            change,
        ),
        Some(policy) if policy.starts_with("volatile-") => Finding::ok(
            EVICTION,
            format!("maxmemory-policy is {policy}: it removes keys with a TTL, and locks have none"),
        ),
        Some(policy) => Finding::error(
            EVICTION,
            format!("maxmemory-policy is {policy}"),
            "when memory is short, Redis silently removes what it keeps of locks: once another server takes them over, \
             a lock that is held can be free, and a second holder gets it",
            change,
        ),
        None => Finding::warning(
            EVICTION,
            "maxmemory-policy could not be checked",
            "with any other policy, Redis removes what it keeps of locks when memory is short: a lock that is held can \
             get a second holder",
            "make sure that it is noeviction, or one that begins with volatile- where no classic clients share locks",
        ),
    }
}

fn memory(facts: &Facts) -> Finding {
    let used = facts.info_number("used_memory");
    let max = facts.setting_number("maxmemory").or_else(|| facts.info_number("maxmemory"));
    let (Some(used), Some(max)) = (used, max) else {
        return Finding::warning(
            "memory",
            "used_memory and maxmemory could not be checked",
            "a Redis that is full refuses writes: it counts as down",
            "watch its memory",
        );
    };
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    if max == 0 {
        return Finding::ok("memory", format!("{} used, no maxmemory", mib(used)));
    }
    let percent = used.saturating_mul(100) / max;
    let found = format!("{} used of {} ({percent} %)", mib(used), mib(max));
    let change = "raise maxmemory, or remove other data";
    match percent {
        // A cache is always full.
        FULL.. if policy(facts).is_some_and(|policy| policy != "noeviction") => Finding::warning(
            "memory",
            found,
            "when it is full, it removes other keys; once there is nothing to remove, it refuses writes: it counts as down",
            change,
        ),
        100.. => Finding::error("memory", found, "it is full and refuses writes: it counts as down", change),
        FULL.. => Finding::warning("memory", found, "when it is full, it refuses writes: it counts as down", change),
        _ => Finding::ok("memory", found),
    }
}

fn persistence(facts: &Facts) -> Finding {
    const ALWAYS: &str =
        "appendonly yes and appendfsync always (slower: each grant waits for the disk), or accept it and fence";
    let aof = match facts.setting("appendonly") {
        Some(text) => Some(text == "yes"),
        None => facts.info("aof_enabled").map(|text| text == "1"),
    };
    let warning = |found: &str, forgotten: &str, change: &str| {
        Finding::warning("persistence", found, format!("{forgotten}. {AFTERWARDS}"), change)
    };
    if let Some(what) = failed_write(facts) {
        return Finding::error(
            "persistence",
            format!("the last write of the {what} failed"),
            "Redis refuses writes until one succeeds: it counts as down; or, if stop-writes-on-bgsave-error is no, \
             it forgets at its next end what it did not save",
            "look at its log; most often the disk is full or the folder not writable",
        );
    }
    let fsync = facts.setting("appendfsync");
    match (aof, fsync, facts.setting("save")) {
        (Some(true), Some("always"), _) if facts.setting("no-appendfsync-on-rewrite") == Some("yes") => warning(
            "appendonly yes, appendfsync always, but no-appendfsync-on-rewrite yes",
            "a process crash forgets nothing; a power loss during a rewrite of the log forgets up to about 30 s",
            "CONFIG SET no-appendfsync-on-rewrite no",
        ),
        (Some(true), Some("always"), _) => Finding::ok(
            "persistence",
            "appendonly yes, appendfsync always: neither a process crash nor a power loss forgets anything, if the \
             disk keeps what it confirms; a full disk ends Redis, so watch its space",
        ),
        (Some(true), Some("everysec"), _) => warning(
            "appendonly yes, appendfsync everysec",
            "a process crash forgets nothing; a power loss forgets the last second or two",
            "appendfsync always (slower: each grant waits for the disk), or accept it and fence",
        ),
        (Some(true), Some(_), _) => warning(
            "appendonly yes, appendfsync no",
            "a process crash forgets nothing; a power loss forgets what the system had not written yet (about 30 s)",
            "appendfsync always, or everysec",
        ),
        (Some(true), None, _) => warning(
            "the append-only file is on, appendfsync could not be checked",
            "a process crash forgets nothing; a power loss forgets the last second or two with appendfsync everysec, \
             about 30 s with no",
            "make sure that it is always or everysec",
        ),
        (Some(false), _, Some("")) => warning(
            "nothing is written to disk (appendonly no, save \"\")",
            "a process crash, a restart and a power loss each forget everything",
            ALWAYS,
        ),
        (Some(false), _, Some(save)) => warning(
            &format!("snapshots only (appendonly no, save {save:?})"),
            "a process crash and a power loss each forget what came after the last snapshot",
            ALWAYS,
        ),
        (Some(false), _, None) => warning(
            "the append-only file is off; whether there are snapshots could not be checked",
            "a process crash and a power loss each forget what came after the last snapshot, or everything",
            ALWAYS,
        ),
        (None, ..) => warning(
            "persistence could not be checked",
            "without an append-only file, a process crash forgets what came after the last snapshot, or everything",
            "make sure that appendonly is yes",
        ),
    }
}

fn replicas(facts: &Facts) -> Finding {
    let failover = format!("a failover forgets what the promoted replica had not received yet. {AFTERWARDS}");
    let Some(connected) = facts.info_number("connected_slaves") else {
        return Finding::warning(
            "replicas",
            "whether there are replicas could not be checked",
            failover,
            "make sure that min-replicas-to-write is 1 or more if a replica is ever promoted, and fence",
        );
    };
    let (least, lag) = (facts.setting_number("min-replicas-to-write"), facts.setting_number("min-replicas-max-lag"));
    let replicas = format!("{connected} {} connected", if connected == 1 { "replica" } else { "replicas" });
    let (least, lag) = match (least, lag) {
        // Either setting at 0 turns the rule off.
        (Some(least), Some(lag)) if least > 0 && lag > 0 => (least, lag),
        (Some(_), Some(_)) if connected == 0 => return Finding::ok("replicas", "no replicas"),
        (Some(_), Some(_)) => {
            return Finding::warning(
                "replicas",
                format!("{replicas}, and min-replicas-to-write is off"),
                format!("{failover}. A server that still reaches the old primary goes on granting there"),
                "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 10 bounds how long; fence what must not be \
                 written twice",
            );
        }
        _ => {
            return Finding::warning(
                "replicas",
                format!("{replicas}; min-replicas-to-write could not be checked"),
                failover,
                "make sure that it is 1 or more if a replica is ever promoted, and fence",
            );
        }
    };
    let in_time = facts.replicas().filter(|replica| follows(replica, lag)).count() as u64;
    let rule = format!("{replicas}, min-replicas-to-write {least}, min-replicas-max-lag {lag} s");
    if in_time < least {
        return Finding::error(
            "replicas",
            format!("{rule}, and {in_time} follow in time"),
            "Redis refuses writes: it counts as down",
            "bring the replicas back, or lower min-replicas-to-write",
        );
    }
    Finding::warning("replicas", rule, failover, "nothing, if what must not be written twice is fenced")
}

fn follows(replica: &str, lag_max: u64) -> bool {
    let field = |name: &str| replica.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let in_time = field("lag").and_then(|lag| lag.parse::<u64>().ok()).is_some_and(|lag| lag <= lag_max);
    field("state") == Some("online") && in_time
}
