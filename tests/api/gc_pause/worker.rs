//! The worker: a process of its own that takes a lock with the Rust client, keeps it alive, and writes when it is told
//! to.
//!
//! It is this test binary again, with a variable that says what to do. It is told by lines on its standard input and
//! answers each with lines on its standard output; between two lines it waits, and there it can be paused.

use crate::{
    fence::{Pass, Store, Written},
    support::Process,
};
use fencepost_client::{Client, Lock};
use serde_json::{Value, json};
use std::{
    io::BufRead,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// The variable that makes a worker of this binary.
const WORKER: &str = "GC_PAUSE_WORKER";
/// What is locked, and the document that is written under it.
pub(crate) const LOCK: &str = "documents/plan";
pub(crate) const DOCUMENT: &str = "plan";
/// Its own words, among those of the test harness that it runs in.
const OWN: &str = "@ ";

/// A worker, as the tests see it.
pub(crate) struct Worker(Process);

impl Worker {
    /// Starts one that asks for the lock at once.
    pub(crate) fn start(server: &str, database: &Path, ttl: Duration, wait: Duration) -> Self {
        let orders = json!({
            "server": server,
            "database": database,
            "ttl_ms": u64::try_from(ttl.as_millis()).unwrap(),
            "wait_ms": u64::try_from(wait.as_millis()).unwrap(),
        });
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "worker::is_a_worker_if_told_to_be", "--nocapture"]);
        Self(Process::start_with_stdin(command.env(WORKER, orders.to_string()).stdin(Stdio::piped())))
    }

    /// What it says next.
    pub(crate) fn says(&self) -> String {
        loop {
            if let Some(own) = self.0.line().strip_prefix(OWN) {
                return own.to_owned();
            }
        }
    }

    /// Its token, once it holds the lock.
    pub(crate) fn token(&self) -> u64 {
        let said = self.says();
        said.strip_prefix("token ").unwrap_or_else(|| panic!("{said}")).parse().unwrap()
    }

    /// Tells it what to do; it need not be awake to be told.
    pub(crate) fn tell(&mut self, order: &str) {
        self.0.write_line(order);
    }

    /// Tells it, and awaits the answer.
    pub(crate) fn does(&mut self, order: &str) -> String {
        self.tell(order);
        self.says()
    }
}

impl std::ops::Deref for Worker {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

#[test]
fn is_a_worker_if_told_to_be() {
    let Ok(orders) = std::env::var(WORKER) else { return };
    let orders: Value = serde_json::from_str(&orders).unwrap();
    let span = |name: &str| Duration::from_millis(orders[name].as_u64().unwrap());
    let mut store = Store::open(Path::new(orders["database"].as_str().unwrap())).unwrap();
    // The lock is kept alive by the runtime's own thread; this one does nothing but wait for orders.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lock = runtime.block_on(async {
        let client = Client::new(orders["server"].as_str().unwrap()).unwrap();
        client.acquire(LOCK).ttl(span("ttl_ms")).wait(span("wait_ms")).await.unwrap()
    });
    let pass = Pass { lock_name: LOCK.to_owned(), token: lock.token(), grant_id: lock.grant_id().to_owned() };
    say(&format!("token {}", pass.token));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (order, body) = line.split_once(' ').unwrap_or((line.as_str(), ""));
        match order {
            "look" => say(&look(&runtime, &lock)),
            "enter" => say(&told(store.enter(&pass).unwrap())),
            "write" => say(&told(store.write(&pass, DOCUMENT, body).unwrap())),
            "write-unchecked" => say(&told(store.write_unchecked(DOCUMENT, body).unwrap())),
            "await-lost" => say(&format!("{}", runtime.block_on(lock.lost()))),
            "release" => return say(&format!("{:?}", runtime.block_on(lock.release()).unwrap().end)),
            _ => panic!("no such order: {line}"),
        }
    }
}

/// What the lock is worth at this very moment: nothing is awaited, so no task of the client need have run.
fn look(runtime: &tokio::runtime::Runtime, lock: &Lock) -> String {
    let valid = lock.is_valid();
    let lost = runtime.block_on(async {
        tokio::select! {
            biased;
            lost = lock.lost() => Some(lost.cause),
            () = async {} => None,
        }
    });
    format!("valid {valid}, lost {lost:?}")
}

fn told(written: Written) -> String {
    match written {
        Written::Accepted => "accepted".to_owned(),
        Written::Rejected { highest } => format!("rejected, highest {highest}"),
    }
}

fn say(words: &str) {
    println!("\n{OWN}{words}");
}
