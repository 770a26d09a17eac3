//! Each metric, and what moves it.

use crate::{
    binary::{Process, Server, await_that},
    http::get,
    redis_server::Redis,
    scrape::scrape,
    start,
    support::{acquire_request, channel},
};
use fencepost_proto::v1::{self, keep_alive_request::Message, lock_service_client::LockServiceClient};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;
use tonic::transport::Channel;

/// All metrics of the server, with their types and units.
const METRICS: [(&str, &str, &str); 50] = [
    ("fencepost_grants", "counter", ""),
    ("fencepost_contended", "counter", ""),
    ("fencepost_acquire_failures", "counter", ""),
    ("fencepost_wait_seconds", "histogram", "seconds"),
    ("fencepost_hold_seconds", "histogram", "seconds"),
    ("fencepost_handoff_seconds", "histogram", "seconds"),
    ("fencepost_renewals", "counter", ""),
    ("fencepost_losses", "counter", ""),
    ("fencepost_late_answers", "counter", ""),
    ("fencepost_waiters", "gauge", ""),
    ("fencepost_streams", "gauge", ""),
    ("fencepost_kept_leases", "gauge", ""),
    ("fencepost_watchers", "gauge", ""),
    ("fencepost_calls", "counter", ""),
    ("fencepost_call_seconds", "histogram", "seconds"),
    ("fencepost_operations", "counter", ""),
    ("fencepost_connections", "gauge", ""),
    ("fencepost_open_calls", "gauge", ""),
    ("fencepost_refusals", "counter", ""),
    ("fencepost_tls_handshakes", "counter", ""),
    ("fencepost_tls_certificate_expiry_timestamp_seconds", "gauge", "seconds"),
    ("fencepost_tls_reloads", "counter", ""),
    ("fencepost_store_round_trips", "counter", ""),
    ("fencepost_store_round_trip_seconds", "histogram", "seconds"),
    ("fencepost_store_errors", "counter", ""),
    ("fencepost_store_batch_size", "histogram", ""),
    ("fencepost_store_up", "gauge", ""),
    ("fencepost_store_connections", "gauge", ""),
    ("fencepost_store_reconnects", "counter", ""),
    ("fencepost_partitions_led", "gauge", ""),
    ("fencepost_partitions_without_leader", "gauge", ""),
    ("fencepost_peers", "gauge", ""),
    ("fencepost_leads_begun", "counter", ""),
    ("fencepost_leads_lost", "counter", ""),
    ("fencepost_shed", "counter", ""),
    ("fencepost_access_denials", "counter", ""),
    ("fencepost_access_reloads", "counter", ""),
    ("fencepost_audit_lines_lost", "counter", ""),
    ("fencepost_draining", "gauge", ""),
    ("fencepost_trace_export_failures", "counter", ""),
    ("fencepost_trace_spans_lost", "counter", ""),
    ("fencepost_build", "info", ""),
    ("fencepost_runtime_workers", "gauge", ""),
    ("fencepost_runtime_alive_tasks", "gauge", ""),
    ("fencepost_runtime_queue_depth", "gauge", ""),
    ("process_cpu_seconds", "counter", "seconds"),
    ("process_resident_memory_bytes", "gauge", "bytes"),
    ("process_open_fds", "gauge", ""),
    ("process_max_fds", "gauge", ""),
    ("process_start_time_seconds", "gauge", "seconds"),
];

/// The sum of the samples of this name whose labels contain all of `labels`.
pub(crate) fn sum(families: &Value, name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = families.as_object().unwrap().values().flat_map(|family| family["samples"].as_array().unwrap());
    let fits = |sample: &&Value| sample[0] == name && labels.iter().all(|(key, value)| sample[1][key] == *value);
    samples.filter(fits).map(|sample| sample[2].as_f64().unwrap()).sum()
}

/// A server whose metrics can be read.
pub(crate) struct Measured {
    server: Server,
    pub(crate) admin: String,
}

impl Measured {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let (server, admin) = start(flags);
        Self { server, admin }
    }

    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        sum(&scrape(&self.admin), name, labels)
    }

    /// Waits until the sum has this value. A value that is read once after another one was awaited may not have moved
    /// yet: the server counts after it has answered, and updates gauges one after the other.
    fn awaits(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        await_that(&format!("{name} {labels:?} = {value}"), || self.sum(name, labels) == value);
    }

    fn awaits_at_least(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        await_that(&format!("{name} {labels:?} >= {value}"), || self.sum(name, labels) >= value);
    }

    pub(crate) fn channel(&self) -> Channel {
        channel(self.server.url.trim_start_matches("http://").parse().unwrap())
    }
}

#[test]
fn every_metric_is_exported_with_help_type_and_unit() {
    let measured = Measured::start(&[]);
    measured.server.run(&["get", "a"]).expect(0);
    let families = scrape(&measured.admin);
    for (name, kind, unit) in METRICS {
        let family = &families[name];
        assert_eq!((&family["type"], &family["unit"]), (&kind.into(), &unit.into()), "{name}: {family}");
        assert!(family["help"].as_str().unwrap().len() > 10, "{name}: {family}");
        assert!(unit.is_empty() || name.ends_with(unit), "{name}");
    }
    for name in families.as_object().unwrap().keys() {
        assert!(METRICS.iter().any(|(known, ..)| known == name), "{name} is not in the list");
    }
    let docs = include_str!("../../../docs/operating/monitoring.md");
    for (name, kind, _) in METRICS {
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        assert!(docs.contains(&format!("| `{name}{suffix}")), "{name}{suffix} is not in docs/operating/monitoring.md");
    }
}

#[test]
fn grants_contention_and_waits_are_told_apart() {
    let it = Measured::start(&[]);
    let held = it.server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    it.server.run(&["acquire", "a"]).expect(75);
    it.server.run(&["acquire", "a", "--wait", "50ms"]).expect(75);
    it.awaits("fencepost_grants_total", &[("by", "try")], 1.0);
    it.awaits("fencepost_contended_total", &[], 1.0);
    it.awaits("fencepost_acquire_failures_total", &[("reason", "timed_out")], 1.0);
    assert_eq!(it.sum("fencepost_acquire_failures_total", &[]), 1.0);

    let waiting = it.server.spawn(&["acquire", "a", "--ttl", "1m", "--wait", "1m"]);
    it.awaits("fencepost_waiters", &[], 1.0);
    it.server.run(&["release", "a", "--lease-id", held.field("lease id")]).expect(0);
    waiting.ended().expect(0);
    it.awaits("fencepost_grants_total", &[("by", "wait")], 1.0);
    it.awaits("fencepost_wait_seconds_count", &[], 1.0);
    it.awaits("fencepost_handoff_seconds_count", &[], 1.0);
    it.awaits("fencepost_waiters", &[], 0.0);
    let families = scrape(&it.admin);
    assert_eq!(sum(&families, "fencepost_grants_total", &[("by", "try")]), 1.0);
    let (wait, handoff) = ("fencepost_wait_seconds_sum", "fencepost_handoff_seconds_sum");
    assert!(sum(&families, handoff, &[]) <= sum(&families, wait, &[]), "{families}");
}

#[test]
fn a_session_is_a_stream_whose_leases_are_kept_and_measured() {
    let it = Measured::start(&[]);
    let held = it.server.spawn(&["run", "a", "--ttl", "1s", "--", "sh", "-c", "echo running; exec sleep 60"]);
    assert_eq!(held.line(), "running");
    it.awaits("fencepost_streams", &[("kind", "session")], 1.0);
    it.awaits("fencepost_kept_leases", &[], 1.0);
    it.awaits_at_least("fencepost_renewals_total", &[("outcome", "renewed")], 1.0);
    held.signal(Signal::SIGTERM);
    held.ended();
    it.awaits("fencepost_streams", &[], 0.0);
    it.awaits("fencepost_kept_leases", &[], 0.0);
    it.awaits("fencepost_hold_seconds_count", &[], 1.0);
    for operation in ["acquire", "release"] {
        it.awaits("fencepost_operations_total", &[("operation", operation), ("outcome", "ok")], 1.0);
    }
    it.awaits("fencepost_calls_total", &[("method", "Session")], 1.0);
    let families = scrape(&it.admin);
    assert!(sum(&families, "fencepost_hold_seconds_sum", &[]) > 0.2, "{families}");
    assert_eq!(sum(&families, "fencepost_losses_total", &[]), 0.0, "a released lease is not lost");
}

#[test]
fn a_lease_that_is_revoked_is_a_loss() {
    let it = Measured::start(&[]);
    let held = it.server.spawn(&["run", "a", "--ttl", "10s", "--", "sh", "-c", "echo running; exec sleep 60"]);
    assert_eq!(held.line(), "running");
    let lock = it.server.run(&["get", "a", "--json"]).json();
    let token = lock["lock"]["holders"][0]["fencingToken"].as_str().unwrap().to_owned();
    it.server.run(&["force-release", "a", "--token", &token, "--reason", "it is stuck"]).expect(0);
    held.ended().expect(70);
    it.awaits("fencepost_losses_total", &[("cause", "revoked")], 1.0);
    it.awaits("fencepost_operations_total", &[("operation", "force_release"), ("outcome", "ok")], 1.0);
    assert_eq!(it.sum("fencepost_losses_total", &[]), 1.0);
}

/// The client does not answer its beats in time. Its lease expires, and its next answer is late.
#[tokio::test]
async fn a_lease_that_expires_is_a_loss_and_the_next_answer_is_late() {
    let it = Measured::start(&[]);
    let mut client = LockServiceClient::new(it.channel());
    let ttl = Duration::from_millis(100);
    let lease = client.acquire(acquire_request("a", ttl)).await.unwrap().into_inner().lease.unwrap();
    let (send, requests) = tokio::sync::mpsc::channel(4);
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut stream = client.keep_alive(requests).await.unwrap().into_inner();
    let attach = v1::LeaseAttachment {
        handle: 1,
        lock_name: lease.lock_name,
        lease_id: lease.lease_id,
        attempt: 1,
        ..Default::default()
    };
    send.send(request(Message::Attach(v1::AttachLeases { leases: vec![attach] }))).await.unwrap();
    let mut beat = 0;
    loop {
        match stream.message().await.unwrap().unwrap().message.unwrap() {
            v1::keep_alive_response::Message::Beat(sent) => beat = sent.beat,
            v1::keep_alive_response::Message::Lost(_) => break,
            _ => {}
        }
    }
    assert!(beat > 0);
    send.send(request(Message::Answer(v1::BeatAnswer { beat }))).await.unwrap();
    let late = tokio::task::spawn_blocking(move || {
        it.awaits("fencepost_late_answers_total", &[], 1.0);
        it.awaits("fencepost_losses_total", &[("cause", "expired")], 1.0);
        it.awaits("fencepost_hold_seconds_count", &[], 1.0);
        it.awaits("fencepost_streams", &[("kind", "keep_alive")], 1.0);
        it
    });
    late.await.unwrap();
}

fn request(message: Message) -> v1::KeepAliveRequest {
    v1::KeepAliveRequest { message: Some(message) }
}

#[tokio::test]
async fn calls_are_counted_by_method_and_status_however_they_end() {
    let it = Measured::start(&[]);
    let mut client = LockServiceClient::new(it.channel());
    let ttl = Duration::from_secs(60);
    client.acquire(acquire_request("a", ttl)).await.unwrap();
    client.acquire(acquire_request("", ttl)).await.unwrap_err();
    // The deadline is the client's, and the server's timer drops the call. A watch ends when its client drops it.
    let mut waiting = tonic::Request::new(v1::AcquireRequest {
        wait_timeout: Some(Duration::from_secs(60).try_into().unwrap()),
        ..acquire_request("a", ttl)
    });
    waiting.set_timeout(Duration::from_secs(60));
    let mut other = client.clone();
    let task = tokio::spawn(async move { other.acquire(waiting).await.map(drop) });
    let watch = client.watch(v1::WatchRequest::default()).await.unwrap();
    let checked = tokio::task::spawn_blocking(move || {
        it.awaits("fencepost_watchers", &[], 1.0);
        it.awaits("fencepost_waiters", &[], 1.0);
        it
    });
    let it = checked.await.unwrap();
    task.abort();
    drop(watch);
    let checked = tokio::task::spawn_blocking(move || {
        for (method, code) in
            [("Acquire", "OK"), ("Acquire", "INVALID_ARGUMENT"), ("Acquire", "CANCELLED"), ("Watch", "CANCELLED")]
        {
            it.awaits("fencepost_calls_total", &[("method", method), ("code", code)], 1.0);
        }
        it.awaits("fencepost_call_seconds_count", &[("method", "Acquire")], 3.0);
        it.awaits("fencepost_watchers", &[], 0.0);
        assert_eq!(it.sum("fencepost_call_seconds_count", &[("method", "Watch")]), 0.0);
        // The refused argument and the dropped call are no operations.
        assert_eq!(it.sum("fencepost_operations_total", &[("operation", "acquire")]), 1.0);
        it
    });
    checked.await.unwrap();
}

#[test]
fn calls_on_the_admin_port_are_counted_as_well() {
    let it = Measured::start(&[]);
    let refused = ["force-release", "a", "--token", "7", "--reason", "it is stuck", "--server", &it.admin];
    Process::start(&mut crate::binary::fencepost(&refused)).ended().expect(1);
    it.awaits("fencepost_calls_total", &[("method", "ForceRelease"), ("code", "OK")], 1.0);
}

#[test]
fn the_store_is_measured() {
    let mut redis = Redis::start(&[]);
    let it = Measured::start(&["--store", &redis.url()]);
    await_that("readiness", || get(&it.admin, "/readyz").status == 200);
    it.server.run(&["acquire", "a", "--ttl", "1m"]).expect(0);
    it.awaits("fencepost_store_connections", &[], 4.0);
    it.awaits_at_least("fencepost_store_batch_size_count", &[], 1.0);
    it.awaits_at_least("fencepost_store_round_trips_total", &[("kind", "check")], 4.0);
    it.awaits_at_least("fencepost_store_round_trips_total", &[("kind", "commands")], 1.0);
    it.awaits_at_least("fencepost_store_round_trip_seconds_count", &[], 1.0);
    let families = scrape(&it.admin);
    let (batches, commands) = ("fencepost_store_batch_size_count", "fencepost_store_batch_size_sum");
    assert!(sum(&families, commands, &[]) >= sum(&families, batches, &[]), "{families}");
    assert_eq!(sum(&families, "fencepost_store_errors_total", &[]), 0.0);
    assert_eq!(sum(&families, "fencepost_store_reconnects_total", &[]), 0.0);

    redis.kill();
    it.awaits("fencepost_store_connections", &[], 0.0);
    it.awaits("fencepost_store_up", &[], 0.0);
    it.server.run(&["acquire", "b"]).expect(69);
    it.awaits_at_least("fencepost_store_errors_total", &[("kind", "unavailable")], 1.0);
    it.awaits_at_least("fencepost_acquire_failures_total", &[("reason", "store_unavailable")], 1.0);
    redis.restart(false);
    it.awaits("fencepost_store_connections", &[], 4.0);
    it.awaits_at_least("fencepost_store_reconnects_total", &[], 4.0);
    it.awaits("fencepost_store_up", &[], 1.0);
}
