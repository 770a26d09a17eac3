//! Pairs of acquire and release on each store, without gRPC: 64 tasks, each with its own lock.
//! `cargo bench --bench stores -- SECONDS` (2 by default); needs redis-server.
#![allow(clippy::unwrap_used, reason = "a benchmark ends where it cannot go on")]

#[path = "../tests/support/asks.rs"]
mod asks;
#[path = "../tests/support/notices.rs"]
mod notices;
#[path = "../tests/support/redis.rs"]
mod redis;

use asks::{Asks, acquire, granted, new_request};
use fencepost::testing::{
    clock::ProcessClock,
    domain::{limits::Limits, name::LockName},
    node::RedisUrl,
    store::{
        MemoryStore, Store,
        quorum::{
            QuorumStore,
            config::bootstrap::create,
            nodes::{client::NodeClient, connections::RedisNodes},
            paxos::node::{ClusterId, Mark},
        },
    },
};
use notices::NoNotices;
use redis::Redis;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

const TASKS: u32 = 64;
const ROUNDS: u32 = 3;
const PARTITIONS: u16 = 16;
const TTL: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() {
    let seconds = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(2);
    let span = Duration::from_secs(seconds);
    println!("{:<24}{:>10}{:>10}{:>14}{:>14}", "store", "tasks", "pairs/s", "p50 of a pair", "redis a pair");
    for tasks in [1, TASKS] {
        for _ in 0..ROUNDS {
            let clock = Arc::new(ProcessClock::start());
            let memory = Arc::new(MemoryStore::new(clock, &Limits::default(), Arc::new(NoNotices)));
            measure("memory", &memory, tasks, span, &[]).await;

            for nodes in [1, 3] {
                quorum(nodes, tasks, span).await;
            }
        }
    }
}

async fn quorum(count: usize, tasks: u32, span: Duration) {
    let servers: Vec<_> = (0..count).map(|_| Redis::start(&[])).collect();
    let urls: Vec<_> = servers.iter().map(|server| RedisUrl::parse(&server.url()).unwrap()).collect();
    let members = servers.iter().map(|server| server.url().into()).collect();
    let mark = Mark { cluster: ClusterId(7), partitions: PARTITIONS, list: 1, members, rebuild: None };
    let nodes = Arc::new(RedisNodes::new(&urls));
    let mut running = JoinSet::new();
    let runs = Arc::clone(&nodes);
    running.spawn(async move { runs.run().await });
    for node in 0..count {
        nodes.up(node).await;
    }
    create(&nodes, &mark, 1_000).await.unwrap();
    let (clock, limits) = (Arc::new(ProcessClock::start()), Limits::default());
    let store = Arc::new(QuorumStore::new(nodes, mark, clock, &limits, Arc::new(NoNotices)));
    let runs = Arc::clone(&store);
    running.spawn(async move { runs.run().await });
    while store.list("", None, usize::MAX).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    measure(if count == 1 { "quorum, one node" } else { "quorum, three nodes" }, &store, tasks, span, &servers).await;
}

/// Measures and prints one store. `servers` are those that it uses.
async fn measure<S: Store>(what: &str, store: &Arc<S>, tasks: u32, span: Duration, servers: &[Redis]) {
    let (over, pairs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut running = JoinSet::new();
    let (before, begun) = (cpu_micros(servers), Instant::now());
    for number in 0..tasks {
        let (store, over, pairs) = (Arc::clone(store), Arc::clone(&over), Arc::clone(&pairs));
        running.spawn(async move {
            let name = LockName::new(format!("orders/{number}")).unwrap();
            let mut times = Vec::new();
            while !over.load(Relaxed) {
                let since = Instant::now();
                let grant = granted(store.acquire(&name, acquire(new_request(), TTL, false)).await.unwrap());
                store.release(&name, grant.lease_id).await.unwrap();
                times.push(since.elapsed());
                pairs.fetch_add(1, Relaxed);
                // The memory store never waits: the timer needs its turn.
                tokio::task::yield_now().await;
            }
            times
        });
    }
    sleep(span).await;
    let (done, elapsed, used) = (pairs.load(Relaxed), begun.elapsed(), cpu_micros(servers) - before);
    over.store(true, Relaxed);
    let mut times: Vec<_> = running.join_all().await.into_iter().flatten().collect();
    times.sort_unstable();
    let (rate, p50) = (done as f64 / elapsed.as_secs_f64(), times[times.len() / 2]);
    println!("{what:<24}{tasks:>10}{rate:>10.0}{p50:>14.1?}{:>11.1} µs", used / done as f64);
}

/// The processor time of these servers, all together.
fn cpu_micros(servers: &[Redis]) -> f64 {
    let field = |server: &Redis, field| server.info("cpu", field).parse::<f64>().unwrap();
    servers.iter().map(|it| 1e6 * (field(it, "used_cpu_user") + field(it, "used_cpu_sys"))).sum()
}
