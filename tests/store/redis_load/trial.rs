//! Two servers on one Redis under load: what must be true after something happened to that Redis, and when all is over.

use crate::{
    binary::Server,
    record::wrong_with,
    redis_server::{Answer, Redis},
    support::{Lock, acquire_request, channel, until},
    work::{LOCKS, TTL, Work, name},
};
use fencepost_proto::v1::{self, lock_service_client::LockServiceClient};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

/// How long clients work before and after.
const AT_WORK: Duration = Duration::from_secs(1);
/// Connecting anew takes 1 s at most, and another server that takes over comes within 2.5 s; a lock may be held for its
/// TTL, by a lease that nobody heard of too, which a takeover begins anew, and be on offer for 3 s to a call that is
/// gone. The rest is for a busy machine.
const GOES_ON_MAX: Duration = Duration::from_secs(1 + 3 + 2 * TTL.as_secs() + 3 + 3);
/// A place whose cleanup was lost with Redis away is deleted with the silence of its server: 30 s. Ended requests are
/// remembered for 10 s.
const QUIET_MAX: Duration = Duration::from_secs(40);

/// Servers and their clients.
pub(crate) struct Trial {
    pub(crate) redis: Redis,
    servers: [Server; 2],
    work: Work,
}

impl Trial {
    /// Clients that have begun to work.
    pub(crate) async fn begin(args: &[&str]) -> Self {
        let redis = Redis::start(args);
        let servers = [0, 1].map(|_| Server::start_with(&["--store", &redis.url()]));
        for server in &servers {
            until(|| async {
                client(server).acquire(acquire_request("probe", Duration::from_millis(100))).await.is_ok()
            })
            .await;
        }
        let work = Work::begin(&servers.each_ref().map(client));
        let trial = Self { redis, servers, work };
        trial.goes_on().await;
        trial
    }

    pub(crate) fn refused(&self) -> usize {
        *self.work.seen.refused.lock().unwrap()
    }

    /// Each lock is granted again in time; then a while of work like any other.
    pub(crate) async fn goes_on(&self) {
        let over = Instant::now();
        while self.work.locks_since(over) < LOCKS {
            let locks = self.work.locks_since(over);
            assert!(over.elapsed() < GOES_ON_MAX, "{locks} of {LOCKS} locks are granted after {GOES_ON_MAX:?}");
            sleep(Duration::from_millis(5)).await;
        }
        println!("all locks are granted again after {:?}", over.elapsed());
        sleep(AT_WORK).await;
    }

    /// Clients stop; what they saw was right, and nothing of them is left behind.
    pub(crate) async fn end(self) {
        let Self { redis, servers, work } = self;
        let seen = work.end().await;
        let over = Instant::now();
        let grants = seen.grants.lock().unwrap().clone();
        let mut wrong = seen.wrong.lock().unwrap().clone();
        wrong.extend(wrong_with(&grants));
        assert!(wrong.is_empty(), "{} things are wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
        while !nobody_waits(&servers).await {
            assert!(over.elapsed() < QUIET_MAX, "somebody waits still after {QUIET_MAX:?}");
            sleep(Duration::from_millis(20)).await;
        }
        let quiet = over.elapsed();
        let (refused, longest) = (*seen.refused.lock().unwrap(), *seen.longest.lock().unwrap());
        println!(
            "{} grants, {refused} refusals, the longest call {longest:?} beyond its wait; nobody waits after {quiet:?}",
            grants.len()
        );
        while let left = kept(&redis)
            && !left.is_empty()
        {
            assert!(over.elapsed() < QUIET_MAX, "{left:?} are kept after {QUIET_MAX:?}");
            sleep(Duration::from_millis(100)).await;
        }
        for server in servers {
            let log = server.log();
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

fn client(server: &Server) -> LockServiceClient<Channel> {
    LockServiceClient::new(channel(server.url.trim_start_matches("http://").parse().unwrap()))
}

async fn nobody_waits(servers: &[Server; 2]) -> bool {
    for server in servers {
        let listed = client(server).list(v1::ListRequest::default()).await.unwrap().into_inner();
        let mut waiters: u32 = listed.locks.iter().map(|lock| lock.waiters).sum();
        for lock in 0..LOCKS {
            waiters += client(server).lock_info(&name(lock)).await.waiters;
        }
        if waiters > 0 {
            return false;
        }
    }
    true
}

/// Keys that never go, but for those that are meant to stay: what the node knows of its cluster and servers, and the
/// header and the sequencer of each partition.
fn kept(redis: &Redis) -> Vec<String> {
    let Answer::List(keys) = redis.command(&["KEYS", "{fp}:*"]) else { panic!("KEYS answers a list") };
    let stays = |key: &String| !key.contains("}:q") || key.ends_with(":h") || key.ends_with(":s");
    // Nothing (-1) said of a key is for ever; a piece of a snapshot has 60 s.
    let lasts = |key: &String| redis.command(&["PTTL", key]) == Answer::Int(-1);
    keys.iter().map(Answer::text).filter(|key| !stays(key) && lasts(key)).collect()
}
