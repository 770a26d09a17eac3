//! Tests of the rules: code that each has to refuse, and code that passes.

use super::{
    code::{code_of, has_word, named_below, without_literals, words_of},
    rules::{binary, check, is_test, size},
};

fn refused(path: &str, text: &str, because: &str) {
    let violations = check(path, text);
    assert!(violations.iter().any(|it| it.contains(because)), "{path}: {text:?} has only {violations:?}");
}

fn passes(path: &str, text: &str) {
    assert_eq!(check(path, text), Vec::<String>::new(), "{path}: {text:?}");
}

#[test]
fn long_files_are_refused() {
    passes("src/domain/a.rs", &"\n".repeat(400));
    refused("src/domain/a.rs", &"\n".repeat(401), "at most 400");
    refused("tests/a.rs", &"\n".repeat(401), "at most 400");
    passes("src/store/quorum/lua/a.lua", &"\n".repeat(40));
    refused("src/store/quorum/lua/a.lua", &"\n".repeat(41), "at most 40");
    passes("README.md", &"\n".repeat(4000));
}

/// A package of 2.9 MB was once committed by accident.
#[test]
fn large_files_and_binaries_are_refused() {
    assert_eq!(size("Cargo.lock", 200_000), None);
    assert_eq!(
        size("profiler.whl", 2_936_517).unwrap(),
        "profiler.whl: 2936517 bytes; at most 200000: remove it, and add it to .gitignore"
    );
    assert_eq!(binary("profiler.whl").unwrap(), "profiler.whl: not text: remove it, and add it to .gitignore");
    assert_eq!(binary("proto/baseline.binpb"), None);
}

#[test]
fn long_lines_are_refused() {
    let long = "x ".repeat(61);
    for path in ["src/domain/a.rs", "README.md", "proto/a.proto"] {
        refused(path, &format!("fine\n// {long}\n"), &format!("{path}:2: ends beyond column 120"));
    }
    refused("src/domain/a.rs", &format!("let a = {};", "b + ".repeat(30)), "a.rs:1: ends beyond");
    passes("src/domain/a.rs", &format!("let a = \"{long}\";"));
    passes("README.md", &format!("| {long} |\n```console\n{long}\n```\n"));
    refused("README.md", &format!("```console\n```\n{long}\n"), "README.md:3: ends beyond");
    passes("src/store/quorum/lua/a.lua", &long);
}

#[test]
fn dependencies_go_one_way() {
    refused("src/domain/a.rs", "use crate::store::Store;", "domain must not use crate::store");
    refused("src/domain/a.rs", "use crate::clock::Clock;", "domain must not use crate::clock");
    refused("src/store/memory/a.rs", "use crate::{\n domain::name::LockName,\n locks::Service };", "crate::locks");
    refused("src/locks/a.rs", "let x = crate::api::convert(y);", "crate::api");
    refused("src/api/a.rs", "use crate ::\n server;", "crate::server");
    refused("src/server/a.rs", "use crate::cli;", "crate::cli");
    refused("src/clock.rs", "use crate::domain::limits;", "crate::domain");
    refused("src/config/a.rs", "use crate::domain::name::LockName;", "crate::domain::name");
    refused("src/telemetry/log.rs", "use crate::server;", "crate::server");
    refused("src/node/a.rs", "use crate::telemetry::init;", "crate::telemetry::init");
    refused("src/cli/a.rs", "use crate::testing::store::Store;", "must not use crate::testing");
    passes("src/testing.rs", "pub use crate::store::*;");
    refused("src/store/a.rs", "use super::super::locks::Service;", "super::locks");
    refused("src/node/a.rs", "use crate::store::StoreError;", "node must not use crate::store");
    refused("src/node/a.rs", "use crate::domain::{limits::Limits, time::StoreTime};", "crate::domain::limits");
    refused("src/node/a/b.rs", "use crate::config::Config;", "crate::config");
    refused("src/access/a.rs", "use crate::domain::name::LockName;", "access must not use crate::domain::name");
    refused("src/access/a.rs", "use crate::telemetry::metrics::Label;", "crate::telemetry");
    passes("src/access/a.rs", "use crate::{clock::unix_time, files::read};");
    passes("src/api/a.rs", "use crate::access::Access;");
    refused("src/helpers/a.rs", "", "unknown module");
    passes("src/domain/a.rs", "use crate::domain::limits::Limits;\n// crate::store is above\n");
    passes("src/config/a.rs", "use crate::{config::Config, domain::limits::{Limits, TTL_FLOOR}};");
    passes("src/clock.rs", "use crate::domain::time::StoreTime;");
    passes("src/telemetry/log.rs", "use crate::config::LogConfig;");
    passes("src/config/a.rs", "use crate::files;");
    passes("src/node/a.rs", "use crate::files;");
    refused("src/files.rs", "use crate::config::Config;", "crate::config");
    passes("src/node/a.rs", "use crate::telemetry::metrics::StoreMetrics;");
    passes("src/server/mod.rs", "use crate::{api, clock::Clock, config::Config, locks, telemetry};");
    passes("src/cli/serve.rs", "use crate::server::serve;");
    passes("src/lib.rs", "pub mod server;");
    passes("src/node/a.rs", "use crate::{domain::time::StoreTime, sync::Mutex};");
    passes("src/store/quorum/a.rs", "use crate::node::RedisUrl;");
    passes("src/store/memory/a.rs", "use super::shard::Shard; use super::{expiry, wait};");
}

#[test]
fn libraries_are_used_only_by_their_modules() {
    for word in ["tokio::time", "tonic::Status", "std::time::Instant", "std::time::SystemTime", "redis::cmd"] {
        refused("src/domain/a.rs", &format!("use {word};"), "src/domain/a.rs: ");
    }
    refused("src/domain/a.rs", "async fn f() {}", "pure");
    refused("src/locks/a.rs", "use fencepost_proto::v1::Lease;", "generated types");
    refused("src/server/a.rs", "use fencepost_client::Client;", "only cli is a client");
    refused("src/config/a.rs", "use clap::Parser;", "parses arguments");
    refused("src/store/memory/a.rs", "use deadpool_redis::Pool;", "Redis");
    refused("src/server/a.rs", "redis::cmd(1)", "Redis");
    passes("src/api/a.rs", "use fencepost_proto::v1::Lease;");
    passes("src/cli/a.rs", "use fencepost_proto::v1::Lease; use fencepost_client::Client; use clap::Parser;");
    refused("src/store/quorum/a.rs", "use redis::cmd;", "only node");
    refused("src/store/quorum/a.rs", "use deadpool_redis::redis::cmd;", "only node");
    passes("src/node/a.rs", "use deadpool_redis::redis::cmd;");
    passes("src/domain/a.rs", "// as tokio does\nlet text = \"redis\"; let instant = 1;");
}

#[test]
fn a_node_does_not_speak_of_locks() {
    refused("src/node/a.rs", "fn f() {}\n/// Sends a lease.", "src/node/a.rs:2: lease: node must not know locks");
    refused("src/node/a/b.rs", "struct GrantId;", "grant");
    refused("src/node/a.rs", "let waiters_max = 1;", "waiters");
    refused("src/node/a.rs", "// Serves a lock.", "lock");
    passes(
        "src/node/a.rs",
        "let clock = sample.lock(); // a blocked clock\nlet text = \"locks, and who holds a lease\";",
    );
    passes("src/store/a.rs", "/// A lease.");
}

#[test]
fn primitives_come_from_crate_sync() {
    refused("src/locks/a.rs", "use parking_lot::Mutex;", "crate::sync");
    refused("src/locks/a/b.rs", "use std::{sync::{Arc, atomic::AtomicU64}, time::Duration};", "crate::sync");
    refused("src/store/memory/a.rs", "use tokio::{sync::Notify, time::sleep};", "crate::sync");
    refused("src/sync.rs", "use crate::clock::Clock;", "must not use crate::clock");
    passes("src/sync.rs", "pub(crate) use parking_lot::Mutex; pub(crate) use std::sync::atomic::AtomicU64;");
    passes("src/locks/a.rs", "use crate::sync::{AtomicU64, Mutex, Notify}; use tokio_util::sync::CancellationToken;");
    passes("src/store/memory/tests.rs", "use std::sync::atomic::AtomicUsize;");
    passes("src/store/quorum/a.rs", "use parking_lot::Mutex; use tokio::sync::Notify;");
}

#[test]
fn roots_of_tests_are_recognized() {
    for test in ["tests/a.rs", "tests/rules/a.rs", "tests/store/a/main.rs"] {
        assert!(is_test(test), "{test}");
    }
    for part in ["tests/support/a.rs", "tests/support/a/main.rs", "tests/store/a/b.rs", "src/a/main.rs", "tests/a/b.md"]
    {
        assert!(!is_test(part), "{part}");
    }
}

#[test]
fn unfinished_work_is_refused() {
    refused("src/domain/a.rs", "#[ignore]\nfn f() {}", "run the test or remove it");
    refused("clients/rust/src/a.rs", "# [ ignore = \"slow\" ]", "run the test or remove it");
    refused("src/domain/a.rs", "todo!()", "finish it");
    refused("proto/a.rs", "unimplemented!(\"later\")", "finish it");
    refused("src/domain/a.rs", "dbg!(x)", "log line");
    passes("src/domain/a.rs", "// todo!() was here\nlet text = \"dbg!(x)\";");
}

#[test]
fn paths_of_one_machine_are_refused() {
    for folder in ["work", "root", "home"] {
        refused("README.md", &format!("fine\ncd /{folder}/fencepost"), "README.md:2: a path of one machine");
    }
    passes("README.md", "cd work/fencepost; ls /usr/share");
}

#[test]
fn programs_that_a_minimal_machine_lacks_are_refused() {
    refused("tests/a.rs", r#"Command::new("kill").args(["-STOP"])"#, "starts kill");
    refused("clients/rust/tests/a.rs", r#"tokio::process::Command::new("ps")"#, "starts ps");
    passes("tests/a.rs", r#"Command::new("openssl"); Command::new(std::env::current_exe()); Command::new(OWN)"#);
    passes("src/cli/run/group.rs", r#"Command::new("fencepost-no-such-command")"#);
}

#[test]
fn comments_and_literals_are_no_code() {
    let blanked = |text: &str| code_of(text).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(blanked("a // b\nc /* d\n e */ f"), "a c f");
    assert_eq!(blanked("let x = \"b \\\" c\"; d"), "let x = ; d");
    assert_eq!(blanked("let x = r#\"b \" c\"#; d"), "let x = ; d");
    assert_eq!(blanked("fn f<'a>(x: &'a str) -> char { '\"' } // e"), "fn f<'a>(x: &'a str) -> char { }");
    assert_eq!(blanked("'\\'' + '\\\\' b"), "+ b");
    assert_eq!(code_of("a /* é\n */ b").lines().count(), 2);
    assert_eq!(without_literals("a(\"b\") // it's c\n'd'"), "a(   ) // it's c\n   ");
    assert_eq!(words_of("GrantId grant_id it's"), ["grant", "id", "grant", "id", "it", "s"]);
    assert_eq!(blanked("\"never closed"), "");
}

#[test]
fn names_are_found_in_paths_and_groups() {
    assert_eq!(named_below("use crate::a::b; crate::c(); mycrate::d;", "crate"), ["a::b", "c"]);
    assert_eq!(named_below("use crate::{a::{b, c}, d, e::f::g,};", "crate"), ["a::b", "a::c", "d", "e::f"]);
    assert!(has_word("use redis::cmd", "redis") && !has_word("my_redis redisson", "redis"));
}
