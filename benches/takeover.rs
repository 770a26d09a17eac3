//! How long a lock has no answer when the server that leads its partition is killed, is stopped, or drains: three
//! servers on three Redis, real processes. `make takeover` runs it. Prints the median and the longest of
//! `FENCEPOST_TRIES` tries of each, or of those that are named: `cargo bench --bench takeover -- drained killed`.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on says so by failing")]

#[path = "../tests/support/binary.rs"]
mod binary;
#[path = "../tests/support/http.rs"]
mod http;
#[path = "../tests/support/redis.rs"]
mod redis;
#[path = "../tests/cli/cluster/several.rs"]
mod several;
#[path = "../tests/support/server.rs"]
mod support;

use fencepost_proto::v1::{self, acquire_response::Outcome, lock_service_client::LockServiceClient};
use nix::sys::signal::Signal;
use several::{Cluster, Member, TTL};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use support::{acquire_request, channel, within};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;

const TRIES: usize = 50;
/// The pause between two calls of the client.
const PAUSE: Duration = Duration::from_millis(3);
/// How long the client goes on before the fault, and after the lock is answered for again.
const AROUND: Duration = Duration::from_millis(400);
/// A server that is stopped for so long is not suspected, but does not answer.
const PROBE: Duration = Duration::from_millis(300);
/// Among so many locks there is one of each server.
const CANDIDATES: usize = 24;

type Calls = LockServiceClient<Channel>;

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    Killed,
    Stopped,
    Drained,
}

#[tokio::main]
async fn main() {
    let tries = std::env::var("FENCEPOST_TRIES").ok().map_or(TRIES, |text| text.parse().unwrap());
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{tries} tries each, {build} build: time for which a lock has no answer");
    println!("{:<10} {:>9} {:>9}", "leader", "p50", "max");
    let mut cluster = Cluster::start();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for fault in [Fault::Nothing, Fault::Drained, Fault::Killed, Fault::Stopped] {
        let name = format!("{fault:?}").to_lowercase();
        if !words.is_empty() && !words.contains(&name) {
            continue;
        }
        let mut gaps = Vec::new();
        for _ in 0..tries {
            cluster.settled();
            cluster.order_by_lead();
            gaps.push(measured(&mut cluster, fault).await);
        }
        gaps.sort();
        let shown = |gap: Duration| format!("{:.1} ms", gap.as_secs_f64() * 1_000.0);
        let (p50, max) = (shown(gaps[gaps.len() / 2]), shown(gaps[gaps.len() - 1]));
        println!("{name:<10} {p50:>9} {max:>9}");
    }
}

/// One try: the longest time without an answer.
async fn measured(cluster: &mut Cluster, fault: Fault) -> Duration {
    let lock = lock_of_first(cluster).await;
    let stop = Arc::new(AtomicBool::new(false));
    let client = tokio::spawn(uses(calls(&cluster.servers[1]), lock.clone(), Arc::clone(&stop)));
    sleep(AROUND).await;
    let mut away = None;
    match fault {
        Fault::Nothing => {}
        Fault::Killed => {
            let dying = cluster.servers.remove(0);
            dying.server.process.signal(Signal::SIGKILL);
            dying.server.process.ended().expect(-(Signal::SIGKILL as i32));
        }
        Fault::Stopped => {
            let stopped = cluster.servers.remove(0);
            stopped.server.process.pause();
            away = Some(stopped);
        }
        Fault::Drained => {
            let leaving = cluster.servers.remove(0);
            leaving.server.process.signal(Signal::SIGTERM);
            tokio::task::spawn_blocking(|| leaving.server.drained()).await.unwrap();
        }
    }
    // Another client sees when the lock is answered for again.
    answered(calls(&cluster.servers[1]), &lock).await;
    sleep(AROUND).await;
    stop.store(true, Ordering::Relaxed);
    let gap = within(client).await.unwrap();
    if let Some(stopped) = away {
        stopped.server.process.signal(Signal::SIGCONT);
        cluster.servers.push(stopped);
    } else if fault != Fault::Nothing {
        cluster.add();
    }
    gap
}

fn calls(through: &Member) -> Calls {
    LockServiceClient::new(channel(through.server.url.trim_start_matches("http://").parse().unwrap()))
}

/// A lock that the first server answers for: while it is stopped, another one has no answer.
async fn lock_of_first(cluster: &Cluster) -> String {
    let through = calls(&cluster.servers[1]);
    for round in 0.. {
        let locks: Vec<String> = (0..CANDIDATES).map(|number| format!("takeover/{round}/{number}")).collect();
        for lock in &locks {
            answered(through.clone(), lock).await;
        }
        let first = &cluster.servers[0].server.process;
        first.pause();
        let asked: Vec<_> = locks
            .iter()
            .map(|lock| {
                let (mut calls, request) = (through.clone(), v1::GetRequest { lock_name: lock.clone() });
                tokio::spawn(async move { timeout(PROBE, calls.get(request)).await.is_ok_and(|it| it.is_ok()) })
            })
            .collect();
        let mut silent = None;
        for (lock, asked) in locks.into_iter().zip(asked) {
            if !asked.await.unwrap() {
                silent = silent.or(Some(lock));
            }
        }
        first.signal(Signal::SIGCONT);
        if let Some(lock) = silent {
            answered(through, &lock).await;
            return lock;
        }
    }
    unreachable!("the rounds do not end")
}

/// Waits until a lock is answered for.
async fn answered(mut calls: Calls, lock: &str) {
    let request = || v1::GetRequest { lock_name: lock.to_owned() };
    within(async { while calls.get(request()).await.is_err() {} }).await;
}

/// Acquires and releases a lock all the time, as a client does that repeats what fails with the same ids. Returns the
/// longest time from one answer to the next.
async fn uses(mut calls: Calls, lock: String, stop: Arc<AtomicBool>) -> Duration {
    let (mut longest, mut answered) = (Duration::ZERO, Instant::now());
    let mut heard = |now: Instant| {
        longest = longest.max(now - answered);
        answered = now;
    };
    while !stop.load(Ordering::Relaxed) {
        let mut request = acquire_request(&lock, TTL);
        let lease = loop {
            match calls.acquire(request.clone()).await {
                Ok(answer) => {
                    let answer = answer.into_inner();
                    assert_eq!(answer.outcome(), Outcome::Acquired, "{answer:?}");
                    break answer.lease.unwrap();
                }
                Err(_) => request.attempt += 1,
            }
            sleep(PAUSE).await;
        };
        heard(Instant::now());
        sleep(PAUSE).await;
        let request = v1::ReleaseRequest { lock_name: lock.clone(), lease_id: lease.lease_id };
        while calls.release(request.clone()).await.is_err() {
            sleep(PAUSE).await;
        }
        heard(Instant::now());
        sleep(PAUSE).await;
    }
    longest
}
