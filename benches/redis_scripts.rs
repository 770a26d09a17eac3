//! What a lock costs in Redis: pairs of acquire and release through the store, beside the classic recipe on one
//! connection in the same run, and beside the least that a fenced lock can do (`least.lua`), sent as the store sends
//! its commands: what is more than that, the promises cost. `cargo bench --bench redis_scripts -- [seconds]`; it starts
//! a `redis-server` of its own. With FENCEPOST_COMMANDSTATS set it also prints how often each command of Redis ran,
//! within scripts or without.
#![allow(clippy::unwrap_used, missing_docs, reason = "it says what is wrong by failing")]

#[path = "../tests/support/asks.rs"]
mod asks;
#[path = "../tests/support/notices.rs"]
mod notices;
#[path = "../tests/support/redis.rs"]
mod redis_server;

use asks::{Asks as _, acquire, granted, new_request};
use deadpool_redis::redis::{self, aio::MultiplexedConnection};
use fencepost::{
    domain::{
        ids::{LeaseId, ReplicaId},
        limits::{COMMAND_WINDOW, Limits},
        name::LockName,
        outcome::{ReleaseOutcome, RenewOutcome},
    },
    node::{Arg, Caller, Connection, Header, Lane, Node, RedisUrl, Script, ScriptCommand},
    store::redis::{RedisStore, keys, sender::Sender},
};
use notices::NoNotices;
use redis_server::Redis;
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::Instant;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(30);
const GIVE_BACK: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
static CLASSIC: LazyLock<redis::Script> = LazyLock::new(|| redis::Script::new(GIVE_BACK));

static LEAST: Script = Script::new(include_str!("least.lua"));
static LEAST_TAKE: ScriptCommand = ScriptCommand::new("take", &LEAST, Lane::Entry);
static LEAST_GIVE_BACK: ScriptCommand = ScriptCommand::new("give back", &LEAST, Lane::Progress);

/// What each caller does, over and over.
#[derive(Clone)]
enum Work {
    /// The recipe: `SET NX PX`, then compare and delete.
    Classic(MultiplexedConnection),
    /// The least of a fenced lock.
    Least(Arc<Node>),
    /// Acquire and release through the store; the name is another one each time, or the caller's own.
    Pairs(Arc<RedisStore>, bool),
    /// Renewals of one lease a caller.
    Renewals(Arc<RedisStore>),
}

async fn take(store: &RedisStore, name: &LockName) -> LeaseId {
    granted(store.acquire(name, acquire(new_request(), TTL, false)).await.unwrap()).lease_id
}

async fn least(node: &Node, command: &'static ScriptCommand, name: &LockName, lease: &[u8]) -> Vec<u8> {
    let (bucket, mut packed) = (keys::bucket(name), Vec::with_capacity(256));
    let (key, counter) = (keys::base(bucket) + "l:" + name.as_str(), keys::base(bucket) + "n");
    for arg in [command.name().into(), Arg::from(key), Arg::from(counter), Arg::from(lease)] {
        arg.pack(&mut packed);
    }
    node.connection(keys::connection(bucket))
        .unwrap()
        .submit(command, bucket, packed, &mut Caller::patient())
        .await
        .unwrap()
        .packed
}

async fn call(work: Work, caller: usize, until: Instant) -> usize {
    let own = LockName::new(format!("orders/{caller:08}")).unwrap();
    let mut done = 0;
    match work {
        Work::Classic(mut connection) => {
            while Instant::now() < until {
                let (key, value) = (format!("classic/{caller:08}"), Uuid::new_v4().to_string());
                let mut take = redis::cmd("SET");
                take.arg(&key).arg(&value).arg("NX").arg("PX").arg(30_000);
                let taken: Option<String> = take.query_async(&mut connection).await.unwrap();
                assert!(taken.is_some());
                let given: i64 = CLASSIC.key(&key).arg(&value).invoke_async(&mut connection).await.unwrap();
                assert_eq!(given, 1);
                done += 1;
            }
        }
        Work::Least(node) => {
            // As long as a lease of the store's.
            let mut lease = [0; 130];
            while Instant::now() < until {
                lease[..16].copy_from_slice(Uuid::new_v4().as_bytes());
                assert_eq!(least(&node, &LEAST_TAKE, &own, &lease).await.len(), 8, "a token");
                assert_eq!(least(&node, &LEAST_GIVE_BACK, &own, &lease).await, b"given back");
                done += 1;
            }
        }
        Work::Pairs(store, reuse) => {
            while Instant::now() < until {
                let fresh = (!reuse).then(|| LockName::new(format!("fresh/{}", Uuid::new_v4())).unwrap());
                let name = fresh.as_ref().unwrap_or(&own);
                let lease = take(&store, name).await;
                let outcome = store.release(name, lease).await.unwrap();
                assert_eq!(outcome, ReleaseOutcome::Released);
                done += 1;
            }
        }
        Work::Renewals(store) => {
            let lease = take(&store, &own).await;
            while Instant::now() < until {
                let outcome = store.renew(&own, lease).await.unwrap();
                assert!(matches!(outcome, RenewOutcome::Renewed(_)), "{outcome:?}");
                done += 1;
            }
            store.release(&own, lease).await.unwrap();
        }
    }
    done
}

/// Seconds of processor time of a process.
fn cpu_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Runs it and prints: how many a second, what one costs Redis and this process, and how long Redis was in its scripts.
async fn measure(redis: &Redis, what: &str, work: &Work, callers: usize, span: Duration) -> f64 {
    redis.command(&["CONFIG", "RESETSTAT"]);
    let (begun, before) = (Instant::now(), [cpu_of(redis.pid), cpu_of(std::process::id())]);
    let until = begun + span;
    let callers: Vec<_> = (0..callers).map(|caller| tokio::spawn(call(work.clone(), caller, until))).collect();
    let (count, mut done) = (callers.len(), 0);
    for caller in callers {
        done += caller.await.unwrap();
    }
    let took = begun.elapsed().as_secs_f64();
    let used = [cpu_of(redis.pid) - before[0], cpu_of(std::process::id()) - before[1]];
    let each = |seconds: f64| seconds * 1e6 / done as f64;
    let scripts = redis.command(&["INFO", "commandstats"]).text();
    if std::env::var_os("FENCEPOST_COMMANDSTATS").is_some() {
        for line in scripts.lines().filter(|line| line.starts_with("cmdstat_")) {
            let (name, rest) = line["cmdstat_".len()..].split_once(":calls=").unwrap_or_default();
            let calls = rest.split(',').next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
            print!("{name} {:.2}  ", calls / done as f64);
        }
        println!();
    }
    let script = scripts.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap_or_default();
    let field = |name: &str| {
        let found = script.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let rate = done as f64 / took;
    println!(
        "{what:<22} {count:>4} under way: {rate:>8.0}/s; CPU each: redis {:>6.2} µs, here {:>6.2} µs; evalsha: {:.2} each, {:>6.2} µs a call",
        each(used[0]),
        each(used[1]),
        field("calls") / done as f64,
        field("usec_per_call"),
    );
    rate
}

#[tokio::main]
async fn main() {
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(3.0);
    let span = Duration::from_secs_f64(seconds);
    let redis = Redis::start(&[]);
    let store =
        Arc::new(RedisStore::new(&RedisUrl::parse(&redis.url()).unwrap(), &Limits::default(), Arc::new(NoNotices)));
    let running = store.clone();
    let running = tokio::spawn(async move { running.maintain().await });
    store.up().wait_for(|up| *up).await.unwrap();
    let sender = Sender { replica: ReplicaId(Uuid::nil()), waiters_max: 0 };
    let header = move |connection: &Connection, bucket| Header {
        key: keys::of_bucket(bucket),
        packed: sender.packed(connection.incarnation().0, connection.not_after(COMMAND_WINDOW)),
    };
    let node = Arc::new(Node::new(&RedisUrl::parse(&redis.url()).unwrap(), header));
    let connecting = node.clone();
    let connecting = tokio::spawn(async move { connecting.run().await });
    node.up().wait_for(|up| *up).await.unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    for callers in [1, 64, 256] {
        let classic = measure(&redis, "classic pairs", &Work::Classic(connection.clone()), callers, span).await;
        let least = measure(&redis, "the least of pairs", &Work::Least(node.clone()), callers, span).await;
        redis.command(&["FLUSHALL"]);
        let pairs = measure(&redis, "pairs, own name", &Work::Pairs(store.clone(), true), callers, span).await;
        let fresh = measure(&redis, "pairs, another name", &Work::Pairs(store.clone(), false), callers, span).await;
        measure(&redis, "renewals", &Work::Renewals(store.clone()), callers, span).await;
        println!(
            "of the classic recipe: {:.2}, and {:.2}; of the least: {:.2}",
            pairs / classic,
            fresh / classic,
            pairs / least
        );
        redis.command(&["FLUSHALL"]);
    }
    running.abort();
    connecting.abort();
}
