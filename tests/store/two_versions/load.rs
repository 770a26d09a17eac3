//! Clients that take locks in turns, and see that nobody else has them.

use fencepost_client::Client;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

const TTL: Duration = Duration::from_secs(5);
const HOLD: Duration = Duration::from_millis(5);
const LOCKS: usize = 4;
const WORKERS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);
/// Locks that are taken before the load counts as going on.
const TAKEN: u64 = 100;

/// Who has a lock: the last token, and until when its holder counts on it.
#[derive(Debug, Default)]
struct Seen {
    token: u64,
    until: Option<Instant>,
}

#[derive(Default)]
struct World {
    clients: Mutex<Vec<Client>>,
    locks: [Mutex<Seen>; LOCKS],
    taken: AtomicU64,
    is_over: AtomicBool,
}

/// The load. Its end shows its failures.
pub(crate) struct Load {
    world: Arc<World>,
    workers: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(clients: &[Client]) -> Self {
        let world = Arc::new(World { clients: Mutex::new(clients.to_vec()), ..World::default() });
        let workers = (0..WORKERS).map(|number| tokio::spawn(work(Arc::clone(&world), number))).collect();
        Self { world, workers }
    }

    /// Locks are taken through this client, too.
    pub(crate) fn use_also(&self, client: Client) {
        self.world.clients.lock().unwrap().push(client);
    }

    /// Waits until locks were taken again, and panics if a worker has failed.
    pub(crate) async fn goes_on(&self) {
        let (from, begun) = (self.world.taken.load(Ordering::SeqCst), Instant::now());
        while self.world.taken.load(Ordering::SeqCst) < from + TAKEN {
            assert!(begun.elapsed() < PATIENCE, "no lock is granted");
            assert!(self.workers.iter().all(|worker| !worker.is_finished()), "a worker has failed");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends it.
    pub(crate) async fn end(self) {
        self.world.is_over.store(true, Ordering::SeqCst);
        for worker in self.workers {
            worker.await.unwrap();
        }
    }
}

async fn work(world: Arc<World>, number: usize) {
    for turn in number.. {
        if world.is_over.load(Ordering::SeqCst) {
            return;
        }
        let client = {
            let clients = world.clients.lock().unwrap();
            clients[turn % clients.len()].clone()
        };
        let at = turn % LOCKS;
        // A server may be gone, or its partition have no leader.
        let Ok(lock) = client.acquire(format!("load/{at}")).ttl(TTL).wait(Duration::from_secs(2)).await else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        {
            let mut seen = world.locks[at].lock().unwrap();
            assert!(lock.token() > seen.token, "token {} after {seen:?}", lock.token());
            assert!(seen.until.is_none_or(|until| until <= Instant::now()), "two hold load/{at}: {seen:?}");
            *seen = Seen { token: lock.token(), until: Some(Instant::now() + lock.valid_for()) };
        }
        sleep(HOLD).await;
        {
            let mut seen = world.locks[at].lock().unwrap();
            if seen.token == lock.token() {
                seen.until = None;
            }
        }
        world.taken.fetch_add(1, Ordering::SeqCst);
        // Where no server answers, it ends by its TTL.
        let _ = lock.release().await;
    }
}
