//! A primary, a replica and Sentinels, all real.

use crate::{
    redis_server::{Answer, Redis, ask},
    until,
};
use std::{
    fs::File,
    process::{Child, Command, Stdio},
};

/// What Sentinels call the primary.
pub(crate) const NAME: &str = "main";

/// A Sentinel process. Dropped, it is killed.
pub(crate) struct Sentinel {
    pub(crate) port: u16,
    child: Child,
    password: Option<&'static str>,
    _folder: tempfile::TempDir,
}

impl Sentinel {
    /// Starts a Sentinel that watches the primary at this port, with more lines for its configuration.
    pub(crate) async fn start(primary: u16, more: &str, password: Option<&'static str>) -> Self {
        let (port, folder) = (Redis::free_port(), tempfile::tempdir().unwrap());
        let config = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds {NAME} 500\nsentinel failover-timeout {NAME} 3000\n{more}\n",
            folder.path().display()
        );
        std::fs::write(&config, text).unwrap();
        let output = File::create(folder.path().join("log")).unwrap();
        let program = std::env::var_os("FENCEPOST_REDIS_SERVER").unwrap_or("redis-server".into());
        let mut command = Command::new(program);
        command.arg(&config).arg("--sentinel").stdin(Stdio::null());
        let child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let sentinel = Self { port, child, password, _folder: folder };
        until("a Sentinel answers", || ask(port, password, &["PING"]).is_ok()).await;
        sentinel
    }

    pub(crate) fn command(&self, words: &[&str]) -> Answer {
        ask(self.port, self.password, words).unwrap()
    }

    /// A field of what it says of the primary.
    pub(crate) fn field(&self, name: &str) -> String {
        let Answer::List(all) = self.command(&["SENTINEL", "MASTER", NAME]) else { return String::new() };
        let all: Vec<String> = all.iter().map(Answer::text).collect();
        all.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone()).unwrap_or_default()
    }

    /// The port that it names.
    pub(crate) fn names(&self) -> u16 {
        let named = self.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).text();
        named.split_once(' ').unwrap().1.parse().unwrap()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A primary with one replica, and three Sentinels that know all of it.
pub(crate) struct World {
    pub(crate) redis: [Redis; 2],
    pub(crate) sentinels: Vec<Sentinel>,
}

impl World {
    pub(crate) async fn start() -> Self {
        let primary = Redis::start(&[]);
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
        for redis in [&primary, &replica] {
            redis.command(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all"]);
        }
        until("the replica follows", || replica.info("replication", "master_link_status") == "up").await;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(Sentinel::start(primary.port, "", None).await);
        }
        let world = Self { redis: [primary, replica], sentinels };
        for sentinel in &world.sentinels {
            until("the Sentinels know each other and the replica", || {
                sentinel.field("num-other-sentinels") == "2" && sentinel.field("num-slaves") == "1"
            })
            .await;
        }
        world
    }

    /// The URL of a server, which enters Redis with a user of its own.
    pub(crate) fn url(&self) -> String {
        let places: Vec<String> = self.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port)).collect();
        format!("redis+sentinel://app:pw@{}/{NAME}", places.join(","))
    }

    /// How many Sentinels name this Redis.
    pub(crate) fn votes_for(&self, redis: &Redis) -> usize {
        self.sentinels.iter().filter(|sentinel| sentinel.names() == redis.port).count()
    }
}
