//! The servers and stores of the checks, and what a check of one language needs.

use crate::{
    binary::Server,
    calls::{channel, within},
    driver::Driver,
    language::Language,
    redis::Redis,
};
use fencepost_proto::v1::{self, lock_service_client::LockServiceClient, watch_response::Kind};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tonic::transport::Channel;

/// Longer than any check, so that no lease ends by its TTL.
pub(crate) const LONG: Duration = Duration::from_secs(10 * 60);
pub(crate) const NO_WAIT: Duration = Duration::ZERO;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    Redis,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
        })
    }
}

/// A store, and a server that no check stops.
pub(crate) struct World {
    pub(crate) store: Store,
    /// Where the server listens.
    pub(crate) address: String,
    redis_url: Option<String>,
    /// Killed when dropped. `Server` is not `Sync`.
    _processes: Mutex<(Server, Option<Redis>)>,
    folder: tempfile::TempDir,
    /// Of the drivers. Kept after the run.
    logs: PathBuf,
}

impl World {
    pub(crate) fn start(store: Store, logs: PathBuf) -> Self {
        let redis = (store == Store::Redis).then(|| Redis::start(&[]));
        let redis_url = redis.as_ref().map(Redis::url);
        let server = server_on(redis_url.as_deref(), &[]);
        let (address, folder) = (address(&server), tempfile::tempdir().unwrap());
        Self { store, address, redis_url, _processes: Mutex::new((server, redis)), folder, logs }
    }

    /// Another server: on the same Redis, or with its own memory.
    pub(crate) fn another_server(&self, flags: &[&str]) -> Server {
        server_on(self.redis_url.as_deref(), flags)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client of the harness.
    pub(crate) fn locks(&self) -> LockServiceClient<Channel> {
        locks_at(&self.address)
    }
}

/// A server on this Redis, or with its own memory.
pub(crate) fn server_on(redis_url: Option<&str>, flags: &[&str]) -> Server {
    match redis_url {
        Some(url) => Server::start_with(&[&["--store", url], flags].concat()),
        None => Server::start_with(flags),
    }
}

pub(crate) fn address(server: &Server) -> String {
    server.url.trim_start_matches("http://").to_owned()
}

pub(crate) fn locks_at(address: &str) -> LockServiceClient<Channel> {
    LockServiceClient::new(channel(address.parse().unwrap()))
}

/// A check of one language.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) world: Arc<World>,
    pub(crate) language: Language,
    pub(crate) check: &'static str,
}

impl Cell {
    /// The name of a lock that no other cell uses.
    pub(crate) fn name(&self, part: &str) -> String {
        format!("{}/{}/{part}", self.check, self.language)
    }

    /// A file that no other cell uses.
    pub(crate) fn file(&self, part: &str) -> PathBuf {
        self.world.folder.path().join(self.name(part).replace('/', "-"))
    }

    /// A new process with the client of this language. `part` names its log.
    pub(crate) fn driver(&self, part: &str) -> Driver {
        self.driver_in(part, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn driver_in(&self, part: &str, environment: &[(&str, &Path)]) -> Driver {
        let log = format!("{}-{}-{}-{part}.log", self.world.store, self.check, self.language);
        Driver::start_in(self.language, &self.world.logs.join(log.replace(' ', "-")), environment)
    }

    /// A new process with an open client of the server that no check stops.
    pub(crate) async fn client(&self) -> Driver {
        self.client_of(&[&self.world.address]).await
    }

    /// A new process with an open client of these servers.
    pub(crate) async fn client_of(&self, servers: &[&str]) -> Driver {
        let driver = self.driver("client");
        driver.open(servers).await;
        driver
    }
}

/// The events of the locks whose names begin with a prefix, as the server reports them.
pub(crate) struct Watched {
    events: Arc<Mutex<Vec<(Kind, u64)>>>,
}

impl Watched {
    pub(crate) async fn start(mut locks: LockServiceClient<Channel>, prefix: &str) -> Self {
        let mut stream =
            within(locks.watch(v1::WatchRequest { prefix: prefix.to_owned() })).await.unwrap().into_inner();
        let started = within(stream.message()).await.unwrap().unwrap();
        assert_eq!(started.kind(), Kind::Started);
        let events = Arc::<Mutex<Vec<_>>>::default();
        let seen = events.clone();
        tokio::spawn(async move {
            while let Ok(Some(event)) = stream.message().await {
                seen.lock().unwrap().push((event.kind(), event.fencing_token));
            }
        });
        Self { events }
    }

    /// The tokens of the events of this kind, once there are that many.
    pub(crate) async fn tokens(&self, kind: Kind, count: usize) -> Vec<u64> {
        let tokens = || {
            let events = self.events.lock().unwrap();
            assert!(events.iter().all(|(kind, _)| *kind != Kind::Missed), "no event is missed");
            events.iter().filter(|(it, _)| *it == kind).map(|(_, token)| *token).collect::<Vec<_>>()
        };
        crate::calls::until(async || tokens().len() >= count).await;
        tokens()
    }
}
