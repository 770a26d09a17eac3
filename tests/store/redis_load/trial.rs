//! Two servers on one Redis under load: what must be true after something happened to that Redis, and when all is over.

use crate::{
    binary::Server,
    record::{Loss, wrong_with},
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
/// Connecting anew takes 1 s at most, then the poll comes within 1 s; a lock may be held for its TTL, by a lease that
/// nobody heard of too, and be on offer for 3 s to a call that is gone. The rest is for a busy machine.
const GOES_ON_MAX: Duration = Duration::from_secs(1 + 1 + TTL.as_secs() + 3 + 3);
/// A place whose cleanup was lost with Redis away is deleted with the silence of its server: 30 s, and 5 s until its
/// key is gone.
const QUIET_MAX: Duration = Duration::from_secs(40);

/// Servers and their clients.
pub(crate) struct Trial {
    pub(crate) redis: Redis,
    servers: [Server; 2],
    work: Work,
    loss: Loss,
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
        let trial = Self { redis, servers, work, loss: None };
        trial.goes_on().await;
        trial
    }

    /// Something by which Redis forgets all.
    pub(crate) async fn losing(&mut self, fault: impl FnOnce(&mut Redis)) {
        let begun = Instant::now();
        tokio::task::block_in_place(|| fault(&mut self.redis));
        self.loss = Some((begun, Instant::now()));
        sleep(Duration::from_millis(1)).await;
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
        let Self { redis, servers, work, loss } = self;
        let seen = work.end().await;
        let over = Instant::now();
        let grants = seen.grants.lock().unwrap().clone();
        let mut wrong = seen.wrong.lock().unwrap().clone();
        wrong.extend(wrong_with(&grants, loss));
        assert!(wrong.is_empty(), "{} things are wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
        while !nobody_waits(&servers).await {
            assert!(over.elapsed() < QUIET_MAX, "somebody waits still after {QUIET_MAX:?}");
            sleep(Duration::from_millis(20)).await;
        }
        let (quiet, refused, longest) = (over.elapsed(), seen.refused.lock().unwrap(), seen.longest.lock().unwrap());
        println!(
            "{} grants, {refused} refusals, the longest call {longest:?} beyond its wait; nobody waits after {quiet:?}",
            grants.len()
        );
        assert_eq!(kept_for_ever(&redis), Vec::<String>::new(), "only what counts tokens is kept");
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

/// Keys that never go, but for those that are meant to stay: the layout, and each bucket's counter and incarnations.
fn kept_for_ever(redis: &Redis) -> Vec<String> {
    let Answer::List(keys) = redis.command(&["KEYS", "fp:*"]) else { panic!("KEYS answers a list") };
    let keys = keys.iter().map(Answer::text);
    let stays = |key: &str| key == "fp:meta" || key.ends_with("}:b") || key.ends_with("}:n");
    // Nothing (-1) said of a key is for ever; -2 is one that went since.
    keys.filter(|key| !stays(key) && redis.command(&["PTTL", key]) == Answer::Int(-1)).collect()
}
