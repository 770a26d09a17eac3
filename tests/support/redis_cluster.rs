//! A real Redis Cluster for tests: three primaries, each with a replica.

#![allow(dead_code, reason = "no test uses all of it")]

use crate::redis::{Answer, Redis, ask};
use std::time::Duration;
use tokio::time::Instant;

/// The slot of `{fp}`, at the second primary.
pub(crate) const SLOT: u16 = 7_963;
/// The first primary, which does not have that slot.
pub(crate) const OTHER: usize = 0;
/// The primary of that slot.
pub(crate) const PRIMARY: usize = 1;
/// Its replica.
pub(crate) const REPLICA: usize = 4;
/// Milliseconds that a member may be silent before others take it for down. Long enough for a busy machine.
const NODE_TIMEOUT: &str = "5000";
/// The longest wait for members to agree.
const PATIENCE: Duration = Duration::from_secs(60);
const RANGES: [[&str; 2]; 3] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];

/// Six members: three primaries, and the replica of each. Dropped, they are killed.
pub(crate) struct RedisCluster {
    pub(crate) members: Vec<Redis>,
}

impl RedisCluster {
    pub(crate) fn start() -> Self {
        Self::start_with(&["--cluster-node-timeout", NODE_TIMEOUT])
    }

    /// A cluster that takes nobody for down while a test runs.
    pub(crate) fn start_patient() -> Self {
        Self::start_with(&["--cluster-node-timeout", "600000"])
    }

    fn start_with(more: &[&str]) -> Self {
        let args =
            [&["--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"], more]
                .concat();
        let cluster = Self { members: (0..6).map(|_| Redis::start(&args)).collect() };
        for (number, range) in RANGES.iter().enumerate() {
            cluster.ok(number, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            cluster.ok(number, &["CLUSTER", "ADDSLOTSRANGE", range[0], range[1]]);
        }
        for member in &cluster.members[1..] {
            cluster.ok(0, &["CLUSTER", "MEET", "127.0.0.1", &member.port.to_string()]);
        }
        cluster.until("all know each other", |it| {
            it.members.iter().all(|member| {
                let nodes = member.command(&["CLUSTER", "NODES"]).text();
                nodes.lines().filter(|line| line.contains(" connected") && !line.contains("handshake")).count() == 6
            })
        });
        for number in 0..3 {
            cluster.ok(number + 3, &["CLUSTER", "REPLICATE", &cluster.id(number)]);
        }
        cluster.until("all serve, and the replicas follow", |it| {
            let replicas = |nodes: &str| nodes.lines().filter(|line| line.contains("slave")).count() == 3;
            let up = [("role", "slave"), ("master_link_status", "up")];
            it.members.iter().all(|member| {
                member.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
                    && replicas(&member.command(&["CLUSTER", "NODES"]).text())
                    && it.shows_replicas(member)
            }) && it.members[3..].iter().all(|replica| replica.replicates(&up))
        });
        cluster
    }

    /// Whether a member shows clients a replica of each primary: it does once they have replicated something.
    fn shows_replicas(&self, member: &Redis) -> bool {
        let Answer::List(ranges) = member.command(&["CLUSTER", "SLOTS"]) else { return false };
        ranges.len() == 3 && ranges.iter().all(|range| matches!(range, Answer::List(parts) if parts.len() == 4))
    }

    /// The URL of these members.
    pub(crate) fn url_of(&self, members: &[usize]) -> String {
        let addresses: Vec<String> = members.iter().map(|number| self.address(*number)).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The URL that an operator gives: one member of each pair.
    pub(crate) fn url(&self) -> String {
        self.url_of(&[0, 1, 5])
    }

    pub(crate) fn address(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].port)
    }

    pub(crate) fn id(&self, member: usize) -> String {
        self.members[member].command(&["CLUSTER", "MYID"]).text()
    }

    #[track_caller]
    pub(crate) fn ok(&self, member: usize, words: &[&str]) {
        assert_eq!(self.members[member].command(words).text(), "OK", "{words:?}");
    }

    /// Whether this member is a primary and has the slot, as it says itself. False if it does not answer.
    pub(crate) fn has_the_slot(&self, member: usize) -> bool {
        let Ok(nodes) = ask(self.members[member].port, None, &["CLUSTER", "NODES"]) else { return false };
        let Answer::Text(nodes) = nodes else { return false };
        let Some(own) = nodes.lines().find(|line| line.contains("myself,master")) else { return false };
        own.split_ascii_whitespace().skip(8).any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let range = (first.parse::<u16>(), last.parse::<u16>());
            matches!(range, (Ok(first), Ok(last)) if (first..=last).contains(&SLOT))
        })
    }

    /// Makes this replica the primary, while the primary is there.
    pub(crate) fn fail_over_to(&self, member: usize) {
        // Refused for as long as the replica does not follow.
        self.until("the failover begins", |it| {
            it.members[member].command(&["CLUSTER", "FAILOVER"]) == Answer::Text("OK".to_owned())
        });
        self.until("the replica is the primary", |it| it.has_the_slot(member));
    }

    /// Begins to move the slot.
    pub(crate) fn begin_to_move(&self, from: usize, to: usize) {
        let slot = SLOT.to_string();
        self.ok(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.id(from)]);
        self.ok(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.id(to)]);
    }

    /// Moves its keys, and ends the move. Keys that are made meanwhile are not moved: there are none, as the member
    /// refuses what needs a key that is not there.
    pub(crate) fn end_to_move(&self, from: usize, to: usize) {
        let (slot, port) = (SLOT.to_string(), self.members[to].port.to_string());
        loop {
            let keys = self.members[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]);
            let Answer::List(keys) = keys else { panic!("{keys:?}") };
            if keys.is_empty() {
                break;
            }
            let keys: Vec<String> = keys.iter().map(Answer::text).collect();
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "30000", "REPLACE", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            assert!(["OK", "NOKEY"].contains(&self.members[from].command(&words).text().as_str()));
        }
        let id = self.id(to);
        for member in [to, from] {
            self.ok(member, &["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
