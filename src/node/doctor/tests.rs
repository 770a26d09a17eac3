//! Tables of facts and the findings about them.

use super::*;

const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\nused_memory:1048576\r\nmaxmemory:0\r\n\
                    maxmemory_policy:noeviction\r\naof_enabled:1\r\ncluster_enabled:0\r\n";
const SETTINGS: [(&str, &str); 8] = [
    ("maxmemory-policy", "noeviction"),
    ("maxmemory", "0"),
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("no-appendfsync-on-rewrite", "no"),
    ("save", ""),
    ("min-replicas-to-write", "0"),
    ("min-replicas-max-lag", "10"),
];

fn well() -> Facts {
    Facts {
        address: "127.0.0.1:6379".to_owned(),
        in_cluster: false,
        keeps_ttls: false,
        info: Ok(INFO.to_owned()),
        settings: Ok(SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        scripts: Ok(()),
        clock: Ok(()),
    }
}

fn set(pairs: &[(&str, &str)]) -> Facts {
    let mut facts = well();
    let settings = facts.settings.as_mut().unwrap();
    settings.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    facts
}

fn told(pairs: &[(&str, &str)]) -> Facts {
    let info = pairs.iter().fold(INFO.to_owned(), |info, (from, to)| info.replace(from, to));
    Facts { info: Ok(info), ..well() }
}

/// The finding of this check has this severity and these words. All that are not `Ok` name a damage and a remedy.
#[track_caller]
fn assert_found(facts: &Facts, check: &str, severity: Severity, words: &str) {
    let findings = judge_only_one(facts, []);
    let finding = findings.iter().find(|finding| finding.check == check).unwrap();
    assert_eq!(finding.severity, severity, "{finding:?}");
    let text = format!("{} {}", finding.found, finding.at_stake);
    assert!(text.contains(words), "{words:?} is not in {finding:?}");
    for finding in &findings {
        let silent = finding.at_stake.is_empty() && finding.change.is_empty();
        assert_eq!(silent, finding.severity == Severity::Ok, "{finding:?}");
    }
}

#[test]
fn a_disk_that_refuses_writes_is_an_error() {
    for field in ["aof_last_write_status", "rdb_last_bgsave_status"] {
        let facts = told(&[("role:master", &format!("role:master\r\n{field}:err"))]);
        assert_found(&facts, "persistence", Severity::Error, "failed");
        let facts = told(&[("role:master", &format!("role:master\r\n{field}:ok"))]);
        assert_found(&facts, "persistence", Severity::Ok, "always");
    }
}

#[test]
fn a_good_redis_has_only_good_findings() {
    let own = [Finding::ok("a check of the caller's", "it is well")];
    let findings = judge_only_one(&well(), own.clone());
    assert_eq!(worst(&findings), Severity::Ok, "{findings:?}");
    let checks: Vec<_> = findings.iter().map(|finding| finding.check).collect();
    let place = checks.iter().position(|check| *check == own[0].check).unwrap();
    assert_eq!(checks[place - 1..=place + 1], ["scripts", own[0].check, EVICTION]);
    let bad = Finding::error("a check of the caller's", "it is not well", "all", "that");
    assert_eq!(worst(&judge_only_one(&well(), [bad])), Severity::Error);
}

#[test]
fn basics() {
    use Severity::{Error, Ok as Fine};
    assert_found(&told(&[("7.0.15", "6.2.14")]), "version", Error, "6.2.14");
    assert_found(&told(&[("7.0.15", "7.2.4\r\nvalkey_version:8.1.0")]), "version", Fine, "Valkey 8.1.0");
    let replica = told(&[("role:master", "role:slave\r\nmaster_host:db1\r\nmaster_port:6379")]);
    assert_found(&replica, "role", Error, "db1:6379");
    assert_found(&told(&[("cluster_enabled:0", "cluster_enabled:1")]), "cluster", Error, "cluster mode");
    let no = || "NOPERM no".to_owned();
    assert_found(&Facts { info: Err(no()), ..well() }, "info", Error, "NOPERM");
    assert_found(&Facts { scripts: Err(no()), ..well() }, "scripts", Error, "NOPERM");
    assert_found(&Facts { clock: Err(no()), ..well() }, "clock", Error, "NOPERM");
}

#[test]
fn eviction_and_memory() {
    for policy in ["allkeys-lru", "allkeys-random"] {
        assert_found(&set(&[("maxmemory-policy", policy)]), EVICTION, Severity::Error, policy);
    }
    for policy in ["volatile-lru", "volatile-ttl"] {
        let facts = set(&[("maxmemory-policy", policy)]);
        assert_found(&facts, EVICTION, Severity::Ok, "locks have none");
        assert_found(&Facts { keeps_ttls: true, ..facts }, EVICTION, Severity::Error, "shared with classic clients");
    }
    // If CONFIG is forbidden, INFO tells the policy too.
    let mut facts = told(&[("noeviction", "allkeys-lfu")]);
    facts.settings = Err("NOPERM".to_owned());
    assert_found(&facts, EVICTION, Severity::Error, "allkeys-lfu");
    facts.info = Ok(INFO.replace("maxmemory_policy", "x"));
    assert_found(&facts, EVICTION, Severity::Warning, "could not be checked");
    for (max, severity) in [("1200000", Severity::Warning), ("1048576", Severity::Error), ("2000000", Severity::Ok)] {
        assert_found(&set(&[("maxmemory", max)]), "memory", severity, "1.0 MiB used");
    }
    let cache = set(&[("maxmemory", "1048576"), ("maxmemory-policy", "volatile-lru")]);
    assert_found(&cache, "memory", Severity::Warning, "it removes other keys");
    assert_found(&told(&[("used_memory", "x")]), "memory", Severity::Warning, "could not");
}

#[test]
fn a_service_is_changed_where_it_is_managed() {
    let address = "master.locks.abc123.euw1.cache.amazonaws.com:6379".to_owned();
    let facts = Facts { address, settings: Err("NOPERM".to_owned()), ..told(&[("noeviction", "allkeys-lru")]) };
    let findings = judge_only_one(&facts, []);
    let change = |check| findings.iter().find(|finding| finding.check == check).unwrap().change.clone();
    assert!(change(EVICTION).contains("parameter group") && change("config").contains("Amazon ElastiCache"));
    assert!(findings.iter().all(|finding| !finding.change.contains("CONFIG SET maxmemory")), "{findings:?}");
}

#[test]
fn persistence_says_what_is_lost() {
    for (settings, words) in [
        (vec![("appendfsync", "everysec")], "the last second or two"),
        (vec![("appendfsync", "no")], "about 30 s"),
        (vec![("no-appendfsync-on-rewrite", "yes")], "during a rewrite"),
        (vec![("appendonly", "no")], "nothing is written to disk"),
        (vec![("appendonly", "no"), ("save", "3600 1")], "after the last snapshot"),
    ] {
        assert_found(&set(&settings), "persistence", Severity::Warning, words);
        // Most of it is not lost.
        assert_found(&set(&settings), "persistence", Severity::Warning, "Running servers write the data back");
    }
    let unknown = Facts { settings: Err("NOPERM".to_owned()), ..well() };
    assert_found(&unknown, "config", Severity::Warning, "CONFIG GET is not allowed");
    assert_found(&unknown, "persistence", Severity::Warning, "appendfsync could not be checked");
    let off = Facts { info: Ok(INFO.replace("aof_enabled:1", "aof_enabled:0")), ..unknown };
    assert_found(&off, "persistence", Severity::Warning, "file is off");
}

#[test]
fn replicas_and_what_a_failover_forgets() {
    let follower = |lag| format!("connected_slaves:1\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=9,lag={lag}");
    let one = |lag| told(&[("connected_slaves:0", follower(lag).as_str())]);
    assert_found(&one(0), "replicas", Severity::Warning, "min-replicas-to-write is off");
    assert_found(&one(0), "replicas", Severity::Warning, "Running servers write the data back");
    let rule = set(&[("min-replicas-to-write", "1")]);
    assert_found(&rule, "replicas", Severity::Error, "0 follow in time");
    let kept = |lag| Facts { info: one(lag).info, ..rule.clone() };
    assert_found(&kept(1), "replicas", Severity::Warning, "1 replica connected, min-replicas-to-write 1");
    assert_found(&kept(11), "replicas", Severity::Error, "refuses writes");
    let unknown = Facts { settings: Err("NOPERM".to_owned()), ..one(0) };
    assert_found(&unknown, "replicas", Severity::Warning, "could not be checked");
    let silent = Facts { info: Err("NOPERM".to_owned()), ..well() };
    assert_found(&silent, "replicas", Severity::Warning, "whether there are replicas could not be checked");
}

#[test]
fn one_of_several_needs_no_disk_and_no_clock() {
    let of = |facts: &Facts, check: &str| {
        let findings = judge_one_of_several(facts, []);
        let found: Vec<_> = findings.into_iter().filter(|finding| finding.check == check).collect();
        assert!(found.len() <= 1, "{found:?}");
        found.first().map(|finding| finding.severity)
    };
    let unkept = set(&[("appendonly", "no"), ("save", "")]);
    assert_eq!(worst(&judge_one_of_several(&unkept, [])), Severity::Ok);
    assert_ne!(worst(&judge_only_one(&unkept, [])), Severity::Ok, "no other one has it");
    assert_eq!(of(&well(), "clock"), None);
    assert_eq!(of(&Facts { clock: Err("NOPERM".to_owned()), ..well() }, "clock"), Some(Severity::Error));
    assert_eq!(of(&set(&[("maxmemory-policy", "allkeys-lru")]), EVICTION), Some(Severity::Error));
    let full_disk = Facts { info: Ok(format!("{INFO}rdb_last_bgsave_status:err\r\n")), ..well() };
    assert_eq!(of(&full_disk, "persistence"), Some(Severity::Error));
}
