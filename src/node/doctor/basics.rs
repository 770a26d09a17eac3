//! Basic requirements on a Redis: version, role, permissions, clock.

use super::{Facts, Finding, ROLE};
use crate::node::handshake::{VERSION_MIN, is_supported};

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
    match facts.info("cluster_enabled") == Some("1") {
        is_in_cluster if is_in_cluster == facts.in_cluster => {}
        true => findings.push(Finding::error(
            "cluster",
            "this Redis is in cluster mode (cluster_enabled:1)",
            "its slots may move to another member of its cluster: a server does not connect to it",
            "name the cluster: --store redis+cluster://host:port,host:port,host:port (some of its members)",
        )),
        false => findings.push(Finding::error(
            "cluster",
            "this Redis is not in cluster mode (cluster_enabled:0)",
            "nobody says whether it is the primary: a server does not connect to it",
            "name the Redis itself: --store redis://host:port",
        )),
    }
    findings.push(scripts(facts));
    findings
}

fn version(facts: &Facts) -> Finding {
    let spoken = facts.info("redis_version").unwrap_or("of an unknown version");
    let shown = match facts.info("valkey_version") {
        Some(valkey) => format!("Valkey {valkey}"),
        None => format!("Redis {spoken}"),
    };
    if is_supported(spoken) {
        return Finding::ok("version", shown);
    }
    let (major, minor) = VERSION_MIN;
    let at_stake = format!("the scripts need {major}.{minor}: a server does not connect to it");
    Finding::error("version", shown, at_stake, format!("upgrade to Redis {major}.{minor} or later, or Valkey"))
}

fn role(facts: &Facts) -> Finding {
    match facts.info("role") {
        Some("master") => Finding::ok(ROLE, "this Redis is a primary"),
        Some(_) => {
            let of = |name| facts.info(name).unwrap_or("?");
            Finding::error(
                ROLE,
                format!("this Redis is a replica of {}:{}", of("master_host"), of("master_port")),
                "only the primary can grant locks: a server does not connect to it",
                "name the primary in the URL",
            )
        }
        None => Finding::warning(
            ROLE,
            "INFO does not say whether this Redis is a primary",
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

/// Nothing depends on its clock.
pub(super) fn clock(facts: &Facts) -> Option<Finding> {
    let why = facts.clock.as_ref().err()?;
    Some(Finding::error(
        "clock",
        format!("TIME is not allowed ({why})"),
        "a server asks for it in its handshake, and does not connect",
        "grant it: ACL SETUSER <user> +time",
    ))
}
