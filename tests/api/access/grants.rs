//! `--audit-grants`: each grant of a lease and each end of one is in the log of exactly one server.

use crate::{
    redis::Redis,
    support::{acquire_request, until, waiting_request, within},
    world::{Credentials, Files, Shown, World, rule, token},
};
use fencepost::testing::config::StoreUrl;
use fencepost_proto::v1::{self, LockMode, lock_service_client::LockServiceClient};
use serde_json::Value;
use std::{fs, time::Duration};

/// So many locks are in more than half of the partitions, so that each of two servers leads some of them.
const LOCKS: usize = 16;
/// Partitions of a store.
const PARTITIONS: f64 = 4.0;
const TTL: Duration = Duration::from_secs(60);
const SHORT_TTL: Duration = Duration::from_millis(300);

async fn acquired(mut client: LockServiceClient<Shown>, request: v1::AcquireRequest) -> v1::Lease {
    within(client.acquire(request)).await.unwrap().into_inner().lease.unwrap()
}

async fn release(mut client: LockServiceClient<Shown>, lease: &v1::Lease) {
    let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
    within(client.release(v1::ReleaseRequest { lock_name, lease_id })).await.unwrap();
}

async fn waiters(mut client: LockServiceClient<Shown>, name: &str) -> u32 {
    let answer = within(client.get(v1::GetRequest { lock_name: name.into() })).await.unwrap();
    answer.into_inner().lock.unwrap().waiters
}

/// Servers, each with an audit log.
struct Fleet {
    files: Files,
    worlds: Vec<World>,
    lease_ids: Vec<String>,
    expected: Vec<String>,
}

impl Fleet {
    async fn start(store: StoreUrl, servers: usize) -> Self {
        Self::start_with(store, servers, true).await
    }

    async fn start_with(store: StoreUrl, servers: usize, audit_grants: bool) -> Self {
        let files = Files::new();
        files.rules(
            &("mode = \"enforce\"\n".to_owned()
                + &(token("app", "secret-app") + &token("operator", "secret-operator"))
                + &rule("app", &["acquire", "read"], &["a/"])
                + &rule("operator", &["force"], &[""])),
        );
        let mut worlds = Vec::new();
        for number in 0..servers {
            let change = |config: &mut fencepost::testing::config::Config| {
                config.store = store.clone();
                config.audit_log = Some(files.path(&format!("audit.{number}")));
                config.audit_grants = audit_grants;
            };
            worlds.push(World::start_with(&files, change).await);
        }
        Self { files, worlds, lease_ids: Vec::new(), expected: Vec::new() }
    }

    /// Waits until all servers lead as many partitions.
    async fn share(&self) {
        let share = PARTITIONS / self.worlds.len() as f64;
        until(async || {
            for world in &self.worlds {
                if (world.metric("fencepost_partitions_led", "").await - share).abs() > 0.1 {
                    return false;
                }
            }
            true
        })
        .await;
    }

    fn client(&self, number: usize) -> LockServiceClient<Shown> {
        self.worlds[number % self.worlds.len()].locks(&Credentials::bearer("secret-app"))
    }

    fn expect(&mut self, told: [&str; 3], lease: &v1::Lease, token: u64, holder: &str) {
        let [event, outcome, mode] = told;
        self.expected.push(format!("{event} {outcome} app {holder} {} {token} {mode}", lease.lock_name));
    }

    async fn acquire(&mut self, by: usize, request: v1::AcquireRequest) -> v1::Lease {
        let holder = request.holder.clone();
        let lease = acquired(self.client(by), request).await;
        self.lease_ids.push(lease.lease_id.clone());
        self.expect(["granted", "acquired", "exclusive"], &lease, lease.fencing_token, &holder);
        lease
    }

    /// Converts a lease; the token that it has then.
    async fn convert(&self, by: usize, lease: &v1::Lease, token: u64, mode: LockMode) -> u64 {
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        let request = v1::ConvertRequest { lock_name, lease_id, fencing_token: token, mode: mode.into() };
        within(self.client(by).convert(request)).await.unwrap().into_inner().fencing_token
    }

    async fn force_release(&self, by: usize, lease: &v1::Lease) {
        let world = &self.worlds[by % self.worlds.len()];
        let mut operator = world.operator(world.addr, &Credentials::bearer("secret-operator"));
        let (lock_name, expected_token) = (lease.lock_name.clone(), lease.fencing_token);
        let request = v1::ForceReleaseRequest { lock_name, expected_token, reason: "stuck".into() };
        within(operator.force_release(request)).await.unwrap();
    }

    /// One life of each kind, for each lock.
    async fn live(&mut self, round: usize) {
        for number in 0..LOCKS {
            let name = format!("a/{round}/{number}");
            let ttl = if number % 4 == 1 { SHORT_TTL } else { TTL };
            let request = acquire_request(&name, ttl);
            let lease = self.acquire(number, request.clone()).await;
            let again = acquired(self.client(number + 1), v1::AcquireRequest { attempt: 2, ..request }).await;
            assert_eq!(again.fencing_token, lease.fencing_token, "a repeat is no other grant");
            let token = lease.fencing_token;
            match number % 4 {
                0 => {
                    release(self.client(number + 1), &lease).await;
                    self.expect(["ended", "released", "exclusive"], &lease, token, "test");
                }
                1 => self.expect(["ended", "expired", "exclusive"], &lease, token, "test"),
                2 => {
                    self.force_release(number + 1, &lease).await;
                    self.expect(["ended", "revoked", "exclusive"], &lease, token, "test");
                }
                _ => self.convert_and_hand_over(number, &lease).await,
            }
        }
    }

    async fn convert_and_hand_over(&mut self, number: usize, lease: &v1::Lease) {
        let token = lease.fencing_token;
        assert_eq!(self.convert(number + 1, lease, token, LockMode::Shared).await, token);
        let upgraded = self.convert(number, lease, token, LockMode::Exclusive).await;
        self.expect(["ended", "converted", "exclusive"], lease, token, "test");
        self.expect(["granted", "converted", "exclusive"], lease, upgraded, "test");
        let waiting = waiting_request(&lease.lock_name, TTL, TTL);
        let waiting = v1::AcquireRequest { holder: "next".into(), ..waiting };
        let waiter = tokio::spawn(acquired(self.client(number + 1), waiting));
        until(async || waiters(self.client(number), &lease.lock_name).await == 1).await;
        release(self.client(number), lease).await;
        self.expect(["ended", "released", "exclusive"], lease, upgraded, "test");
        let next = within(waiter).await.unwrap();
        self.expect(["granted", "acquired", "exclusive"], &next, next.fencing_token, "next");
        release(self.client(number), &next).await;
        self.expect(["ended", "released", "exclusive"], &next, next.fencing_token, "next");
    }

    /// The lines of all logs that tell of leases, and how many of them each log has.
    fn noted(&self) -> (Vec<String>, Vec<usize>) {
        let (mut noted, mut counts) = (Vec::new(), Vec::new());
        for number in 0..self.worlds.len() {
            let text = fs::read_to_string(self.files.path(&format!("audit.{number}"))).unwrap();
            assert!(!text.contains("secret") && !self.lease_ids.iter().any(|id| text.contains(id)), "{text}");
            let before = noted.len();
            for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
                let told = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
                if !["granted", "ended"].contains(&&*told("event")) {
                    continue;
                }
                let [event, outcome, mode] = ["event", "outcome", "mode"].map(told);
                let [identity, holder, lock] = ["identity", "holder", "lock_name"].map(told);
                assert_eq!(told("reason"), if outcome == "revoked" { "stuck" } else { "" });
                noted.push(format!("{event} {outcome} {identity} {holder} {lock} {} {mode}", line["fencing_token"]));
            }
            counts.push(noted.len() - before);
        }
        (noted, counts)
    }

    /// All that happened is noted once. What is noted twice shows after the next round at the latest.
    async fn check(&mut self) -> Vec<usize> {
        until(async || self.noted().0.len() >= self.expected.len()).await;
        let (mut noted, counts) = self.noted();
        noted.sort_unstable();
        self.expected.sort_unstable();
        assert_eq!(noted, self.expected);
        counts
    }
}

#[tokio::test]
async fn the_memory_store_notes_each_grant_and_each_end_once() {
    let mut fleet = Fleet::start(StoreUrl::Memory, 1).await;
    for round in 0..2 {
        fleet.live(round).await;
        fleet.check().await;
    }
}

#[tokio::test]
async fn of_two_servers_on_one_redis_the_one_that_leads_the_lock_notes_it() {
    let redis = Redis::start(&[]);
    let mut fleet = Fleet::start(StoreUrl::Redis(vec![redis.url()]), 2).await;
    fleet.share().await;
    fleet.live(0).await;
    fleet.check().await;
    // Watchers are told at both servers, and the log only at one.
    let mut watches = Vec::new();
    for number in 0..2 {
        let request = v1::WatchRequest { prefix: "a/".into() };
        watches.push(within(fleet.client(number).watch(request)).await.unwrap().into_inner());
    }
    fleet.live(1).await;
    for watch in &mut watches {
        assert!(within(watch.message()).await.unwrap().is_some());
    }
    fleet.check().await;
    fleet.live(2).await;
    let counts = fleet.check().await;
    assert!(counts.iter().all(|count| *count > 0), "both lead some of the locks: {counts:?}");
}

#[tokio::test]
async fn without_the_option_no_lease_is_noted() {
    let mut fleet = Fleet::start_with(StoreUrl::Memory, 1, false).await;
    fleet.live(0).await;
    // The force releases are in the log in any case, and come after the grants.
    let log = fleet.files.path("audit.0");
    until(async || fs::read_to_string(&log).unwrap().lines().count() >= LOCKS / 4).await;
    assert_eq!(fleet.noted().0, [] as [String; 0]);
}
