//! The worker: a process that acquires a lock with the Rust client, keeps it alive, and writes when ordered to.
//!
//! It is this test binary, started with a variable that configures the worker. It reads orders from stdin and answers
//! on stdout, one line each. It can be paused between two orders.

use crate::{
    store::{self, Written},
    support::Process,
};
use fencepost_client::{Client, Lock};
use fencepost_guards::Grant;
use serde_json::{Value, json};
use std::{
    io::BufRead,
    process::{Command, Stdio},
    time::Duration,
};

/// The variable with the configuration of the worker.
const WORKER: &str = "GC_PAUSE_WORKER";
/// The lock, and the document that it protects.
pub(crate) const LOCK: &str = "documents/plan";
pub(crate) const DOCUMENT: &str = "plan";
/// The prefix of the worker's lines, among those of the test harness.
const PREFIX: &str = "@ ";

/// A worker process.
pub(crate) struct Worker(Process);

impl Worker {
    /// Starts a worker, which acquires the lock at once.
    pub(crate) fn start(server: &str, store: &str, ttl: Duration, wait: Duration) -> Self {
        let config = json!({
            "server": server,
            "store": store,
            "ttl_ms": u64::try_from(ttl.as_millis()).unwrap(),
            "wait_ms": u64::try_from(wait.as_millis()).unwrap(),
        });
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "worker::runs_as_a_worker_if_configured", "--nocapture"]);
        Self(Process::start_with_stdin(command.env(WORKER, config.to_string()).stdin(Stdio::piped())))
    }

    /// The next answer.
    pub(crate) fn answer(&self) -> String {
        loop {
            if let Some(answer) = self.0.line().strip_prefix(PREFIX) {
                return answer.to_owned();
            }
        }
    }

    /// Waits until the worker holds the lock. Returns its token.
    pub(crate) fn token(&self) -> u64 {
        let answer = self.answer();
        answer.strip_prefix("token ").unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
    }

    /// Sends an order, even to a paused worker.
    pub(crate) fn send(&mut self, order: &str) {
        self.0.write_line(order);
    }

    /// Sends an order, and waits for the answer.
    pub(crate) fn order(&mut self, order: &str) -> String {
        self.send(order);
        self.answer()
    }
}

impl std::ops::Deref for Worker {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

#[test]
fn runs_as_a_worker_if_configured() {
    let Ok(config) = std::env::var(WORKER) else { return };
    let config: Value = serde_json::from_str(&config).unwrap();
    let span = |name: &str| Duration::from_millis(config[name].as_u64().unwrap());
    let mut store = store::open(config["store"].as_str().unwrap());
    // The thread of the runtime keeps the lease alive; this one waits for orders.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lock = runtime.block_on(async {
        let client = Client::new(config["server"].as_str().unwrap()).unwrap();
        client.acquire(LOCK).ttl(span("ttl_ms")).wait(span("wait_ms")).await.unwrap()
    });
    let held = lock.held();
    let grant = Grant::from(&held);
    say(&format!("token {}", grant.token));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (order, body) = line.split_once(' ').unwrap_or((line.as_str(), ""));
        match order {
            "look" => say(&look(&runtime, &lock)),
            "enter" => say(&text_of(store.enter(grant))),
            "write" => say(&text_of(store.write(grant, DOCUMENT, body))),
            "write-unchecked" => {
                store.write_unchecked(DOCUMENT, body);
                say("written");
            }
            "await-lost" => say(&format!("{}", runtime.block_on(lock.lost()))),
            "release" => {
                let end = runtime.block_on(lock.release()).unwrap().end;
                return say(&end.map_or("not known".to_owned(), |end| format!("{end:?}")));
            }
            _ => panic!("no such order: {line}"),
        }
    }
}

/// The state of the lock at this moment. It does not wait, so the client's tasks may not have run yet.
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

fn text_of(written: Written) -> String {
    match written {
        Written::Accepted => "accepted".to_owned(),
        Written::Rejected { highest } => format!("rejected, highest {highest}"),
        Written::NotRaised => "not raised".to_owned(),
        Written::NoSlot | Written::NotShared => "not exclusive".to_owned(),
    }
}

fn say(answer: &str) {
    println!("\n{PREFIX}{answer}");
}
