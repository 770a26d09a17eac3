//! `fencepost-bench` as its users run it: every workload, briefly, on both stores. The tests check the report, not the
//! speed.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[path = "../../../tests/support/authority.rs"]
mod authority;
#[path = "../../../tests/support/binary.rs"]
mod binary;
#[path = "../../../tests/support/certificates.rs"]
mod certificates;
#[path = "../../../tests/support/redis.rs"]
mod redis;

use authority::Authority;
use binary::{Process, Server, await_some, await_that, isolated};
use nix::{errno::Errno, sys::signal::Signal, sys::signal::kill, unistd::Pid};
use redis::Redis;
use serde_json::Value;
use std::{fs, path::Path};

/// Small parameters, for short runs.
const SMALL: [&str; 20] = [
    "--rounds",
    "1",
    "--duration",
    "500ms",
    "--warmup",
    "50ms",
    "--clients",
    "6",
    "--waiters",
    "12",
    "--leases",
    "60",
    "--streams",
    "2",
    "--ttl",
    "600ms",
    "--connections",
    "2",
    "--threads",
    "2",
];

/// Starts the benchmark with these arguments alone.
fn run(arguments: &[&str]) -> Process {
    Process::start(&mut isolated(Path::new(env!("CARGO_BIN_EXE_fencepost-bench")), arguments))
}

fn bench(arguments: &[&str]) -> Process {
    run(&[arguments, &SMALL].concat())
}

/// Runs the benchmark to its end. Returns the report.
fn report(arguments: &[&str]) -> Value {
    let process = bench(&[arguments, &["--json"]].concat());
    let ended = process.ended().expect(0);
    let report = ended.json();
    assert_eq!(report["errors"], 0, "{report:#}");
    report
}

/// Checks that the workload has operations, and these figures and baselines.
fn check(report: &Value, workload: &str, figures: &[&str], baselines: &[&str]) {
    let found = &report["workloads"][workload];
    let is_number = |value: &Value| value.as_f64().is_some_and(f64::is_finite);
    assert!(found["fencepost"]["operations"].as_f64().unwrap() > 0.0, "{workload}: {found:#}");
    for figure in figures {
        assert!(is_number(&found["fencepost"][figure]), "{workload}: {figure}: {found:#}");
    }
    for baseline in baselines {
        assert!(
            found["baselines"][baseline]["operations"].as_f64().unwrap() > 0.0,
            "{workload}: {baseline}: {found:#}"
        );
        let ratios = found["ratios"][baseline].as_object();
        let ratios = ratios.unwrap_or_else(|| panic!("{workload}: no ratio to {baseline}: {found:#}"));
        assert!(!ratios.is_empty() && ratios.values().all(is_number), "{workload}: {baseline}: {found:#}");
    }
}

const LATENCIES: [&str; 5] = ["rate_per_s", "p50_us", "p99_us", "p999_us", "max_us"];

#[test]
fn every_workload_is_measured_on_the_memory_store() {
    let report = report(&["--store", "memory"]);
    let echoes = ["echo_unary", "echo_stream"];
    let with_cpu = [&LATENCIES[..], &["server_cpu_s_per_100k", "bench_cpu_s_per_100k"]].concat();
    check(&report, "pairs", &[&with_cpu[..], &["acquire_p50_us", "acquire_p99_us"]].concat(), &echoes);
    check(&report, "handoff", &[&with_cpu[..], &["jain_fairness", "inversions"]].concat(), &echoes);
    check(&report, "idle", &["server_bytes_per_waiter", "server_cpu_percent"], &[]);
    check(&report, "hold", &["server_bytes_per_lease", "renewals_per_s", "lost", "at_risk"], &[]);
    check(&report, "wake", &LATENCIES, &echoes);
    assert!(report["workloads"]["hold"]["fencepost"]["renewals_per_s"].as_f64().unwrap() > 0.0, "{report:#}");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0 && report["date"].as_str().unwrap().contains('T'));
    assert_eq!(report["parameters"]["clients"], 6);
}

/// These workloads on a Redis of their own. Each server waits 3 s before it uses an empty Redis, so not all of them fit
/// into the time that a test waits for a process.
fn report_on_redis(workloads: &str) -> Value {
    let options = ["--store", "redis", "--replicas", "2", "--redis-option", "appendfsync everysec"];
    let report = report(&[&options[..], &["--workload", workloads]].concat());
    assert!(report["redis"].as_str().unwrap().ends_with("appendfsync everysec"), "{report:#}");
    report
}

#[test]
fn pairs_and_hand_offs_are_measured_on_a_redis_of_their_own() {
    let report = report_on_redis("pairs,handoff");
    let with_redis = [&LATENCIES[..], &["redis_cpu_s_per_100k", "evalsha_per_operation"]].concat();
    let (pairs, line) = (["classic_deadpool", "classic_multiplexed", "classic_forwarded"], ["retry_loop"]);
    let echoes = ["echo_unary", "echo_stream"];
    check(&report, "pairs", &with_redis, &[&echoes[..], &pairs].concat());
    check(&report, "handoff", &with_redis, &[&echoes[..], &line].concat());
}

#[test]
fn waits_and_leases_are_measured_on_a_redis_of_their_own() {
    let report = report_on_redis("idle,hold,wake");
    let with_redis = [&LATENCIES[..], &["redis_cpu_s_per_100k", "evalsha_per_operation"]].concat();
    check(&report, "idle", &["evalsha_per_s", "commands_per_s", "redis_bytes_per_waiter"], &["retry_loop"]);
    check(&report, "hold", &["redis_cpu_percent", "redis_bytes_per_lease"], &["watchdogs"]);
    check(&report, "wake", &with_redis, &["echo_unary", "echo_stream", "retry_loop"]);
}

#[test]
fn it_measures_a_running_server_and_reads_the_counters_of_its_redis() {
    let redis = Redis::start(&[]);
    let server = Server::start_with(&["--store", &redis.url()]);
    await_that("the server is connected to Redis", || server.run(&["get", "bench"]).code == 0);
    let address = server.url.trim_start_matches("http://");
    let arguments = ["--server", address, "--redis", &redis.url(), "--workload", "pairs,wake", "--no-baselines"];
    let report = report(&arguments);
    check(&report, "pairs", &["evalsha_per_operation"], &[]);
    check(&report, "wake", &LATENCIES, &[]);
    assert_eq!(report["workloads"].as_object().unwrap().len(), 2, "{report:#}");
    assert_eq!(report["workloads"]["pairs"]["fencepost"]["server_cpu_s_per_100k"], Value::Null);
    assert_eq!(server.waiters("bench"), 0, "the server still serves");
}

#[test]
fn it_keeps_a_fixed_rate_and_prints_a_table() {
    let arguments = ["--store", "memory", "--workload", "pairs", "--rate", "100", "--names", "fresh"];
    let ended = bench(&arguments).ended().expect(0);
    let line = |name: &str| ended.field(name).split_whitespace().last().unwrap().to_owned();
    let rate: f64 = line("rate_per_s").parse().unwrap();
    assert!((60.0..=140.0).contains(&rate), "{ended:?}");
    assert!(ended.out.contains("ratio to tonic echo, unary: rate_per_s "), "{ended:?}");
    assert!(ended.err.contains("pairs, tonic echo, stream, round 1 of 1"), "{ended:?}");
}

#[test]
fn no_process_that_it_started_outlives_it() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let long = ["--store", "redis", "--workload", "pairs", "--no-baselines", "--warmup", "1m"];
        let process = run(&long);
        let children = await_some("a server and its Redis", || {
            let children = children(process.pid());
            (children.len() == 2).then_some(children)
        });
        process.signal(signal);
        let code = if signal == Signal::SIGINT { 130 } else { -(signal as i32) };
        process.ended().expect(code);
        for child in children {
            await_that("a child process has exited", || kill(child, None) == Err(Errno::ESRCH));
        }
    }
}

#[test]
fn it_fails_if_no_operation_succeeds() {
    // Nothing listens on port 1. One that was free a moment ago may be that of a test in another program by now.
    let failed = bench(&["--server", "http://127.0.0.1:1", "--workload", "pairs", "--no-baselines"]).ended().expect(1);
    assert!(failed.out.contains("cannot connect"), "{failed:?}");
    failed.says("no operation succeeded");
    let missing = ["--store", "redis", "--workload", "pairs", "--redis-server", "no-such-program"];
    bench(&missing).ended().expect(1).says("no-such-program");
    let missing = ["--store", "memory", "--workload", "pairs", "--no-baselines", "--fencepost", "no-such-server"];
    bench(&missing).ended().expect(1).says("no-such-server");
}

#[test]
fn an_invalid_command_line_is_explained() {
    let run = |arguments: &[&str]| run(arguments).ended();
    run(&[]).expect(2).says("--store");
    run(&["--store", "nonsense"]).expect(2).says("must be memory, redis, or the URL of a Redis");
    run(&["--store", "memory", "--workload", "round"]).expect(2).says("handoff");
    run(&["--store", "memory", "--replicas", "2"]).expect(2).says("share a Redis");
    run(&["--store", "memory", "--redis-option", "appendonly yes"]).expect(2).says("--store redis");
    run(&["--store", "memory", "--rate", "0"]).expect(2).says("above 0");
}

#[test]
fn it_measures_over_tls_with_a_client_certificate() {
    let authority = Authority::new("one");
    let (files, ca, me) = (authority.server(), authority.file(), authority.client());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (ca, cert, key) = (text(&ca), text(&me.certificate), text(&me.key));
    let (own, own_key) = (text(&files.certificate), text(&files.key));
    let server = Server::start_with(&["--tls-cert", &own, "--tls-key", &own_key, "--tls-client-ca", &ca]);
    let address = server.url.replace("http://", "https://");
    let with = |flags: &[&str]| {
        bench(&[&["--server", &address, "--workload", "pairs", "--no-baselines"], flags].concat()).ended()
    };
    for via in ["unary", "session"] {
        with(&["--via", via, "--ca", &ca, "--cert", &cert, "--key", &key]).expect(0);
    }
    with(&["--ca", &ca]).expect(1).says("no operation succeeded");
    with(&["--ca", "/missing.pem"]).expect(2).says("missing.pem");
    with(&["--cert", &cert]).expect(2).says("--key FILE");
    bench(&["--server", "not a server"]).ended().expect(2).says("the host must be an IP address, or a name");
}

/// The running child processes.
fn children(parent: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let child_of = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.next() != Some("Z") && fields.next() == Some(&parent.to_string())
    };
    processes.filter(child_of).map(Pid::from_raw).collect()
}
