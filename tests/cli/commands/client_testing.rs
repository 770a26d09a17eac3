//! `fencepost_client::testing::Server`, with which users of the Rust client start this program in their tests.
//!
//! It reads its environment, so each test runs once more in a process of its own.

use fencepost_client::{
    Client, LeaseEnd, LossCause,
    raw::v1,
    testing::{LoseError, Server, StartError},
};
use std::{fs, path::Path, process::Command, time::Duration};

/// Set in the inner process.
const INNER: &str = "TEST_CLIENT_TESTING";
/// The longest wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether this is the inner process. Otherwise runs it, with this variable, and expects success.
fn is_inner(test: &str, variable: &str, value: &str) -> bool {
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    let mut inner = Command::new(std::env::current_exe().unwrap());
    inner.args(["--exact", &format!("client_testing::{test}")]).env_remove("FENCEPOST_BIN");
    let ended = inner.env(INNER, "1").env(variable, value).output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && out.contains("1 passed"), "{out}");
    false
}

fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[tokio::test]
async fn the_named_program_serves_until_its_server_is_dropped() {
    let test = "the_named_program_serves_until_its_server_is_dropped";
    if !is_inner(test, "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    let server = Server::start_with(["--ttl-min", "50ms"]).await.unwrap();
    let client = Client::new(server.address()).unwrap();
    let lock = client.acquire("orders/42").ttl(Duration::from_millis(500)).await.unwrap();
    server.pause().unwrap();
    let lost = tokio::time::timeout(PATIENCE, lock.lost()).await.unwrap();
    assert_eq!(lost.cause, LossCause::Silence);
    server.resume().unwrap();
    let next = client.acquire("orders/42").wait(PATIENCE).await.unwrap();
    assert!(next.token() > lock.token());
    // Stopped, it can be killed all the same.
    server.pause().unwrap();
    let process = server.id();
    assert!(exists(process));
    drop(server);
    assert!(!exists(process));
}

/// A server of the inner process, and a client.
async fn start() -> (Server, Client) {
    let server = Server::start().await.unwrap();
    let client = Client::new(server.address()).unwrap();
    (server, client)
}

async fn info(client: &Client, name: &str) -> v1::LockInfo {
    client.calls().get(v1::GetRequest { lock_name: name.to_owned() }).await.unwrap().lock.unwrap()
}

async fn waiters(client: &Client, name: &str, count: u32) {
    let queued = async {
        while info(client, name).await.waiters != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, queued).await.expect("the requests are queued");
}

#[tokio::test]
async fn a_lost_lock_is_reported_and_the_next_waiter_served() {
    let test = "a_lost_lock_is_reported_and_the_next_waiter_served";
    if !is_inner(test, "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    let (server, client) = start().await;
    let lock = client.acquire("orders/42").await.unwrap();
    let next = tokio::spawn(client.acquire("orders/42").wait(PATIENCE).into_future());
    waiters(&client, "orders/42", 1).await;
    server.lose("orders/42").await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!((next.token(), next.previous_end()), (lock.token() + 1, Some(LeaseEnd::Revoked)));
    let lost = tokio::time::timeout(PATIENCE, lock.lost()).await.unwrap();
    assert_eq!(lost.cause, LossCause::Revoked);
    let error = server.lose("other").await.unwrap_err();
    assert!(matches!(&error, LoseError::NotHeld { name } if name == "other"), "{error:?}");
    assert_eq!(error.to_string(), "nobody holds lock \"other\"");
}

#[tokio::test]
async fn a_lost_reply_is_asked_for_again() {
    if !is_inner("a_lost_reply_is_asked_for_again", "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    let (server, client) = start().await;
    let kept = client.acquire("kept").await.unwrap();
    let before = client.acquire("orders/42").await.unwrap();
    let token = before.token();
    before.release().await.unwrap();
    server.drop_reply().await.unwrap();
    let lock = client.acquire("orders/42").await.unwrap();
    assert_eq!(lock.token(), token + 1, "the repetition was not granted anew");
    server.drop_reply().await.unwrap();
    assert!(lock.release().await.unwrap().was_held());
    assert!(kept.is_valid(), "it has moved to the next session");
    // By unary calls.
    let calls = client.calls();
    server.drop_reply().await.unwrap();
    let request = v1::AcquireRequest { lock_name: "orders/42".to_owned(), ..Default::default() };
    let lease = calls.acquire(request).await.unwrap().lease.unwrap();
    assert_eq!(lease.fencing_token, token + 2);
    server.drop_reply().await.unwrap();
    let release = v1::ReleaseRequest { lock_name: lease.lock_name, lease_id: lease.lease_id };
    assert_eq!(calls.release(release).await.unwrap().end(), v1::LeaseEnd::Released);
}

#[tokio::test]
async fn only_the_memory_store_fails_on_demand() {
    let test = "only_the_memory_store_fails_on_demand";
    if !is_inner(test, "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    // Nothing listens there, and the server starts all the same.
    let server = Server::start_with(["--store", "redis://127.0.0.1:1"]).await.unwrap();
    assert!(server.drop_reply().await.unwrap_err().to_string().contains("--store memory:"));
    let error = server.lose("orders/42").await.unwrap_err();
    assert!(matches!(error, LoseError::Order(_)) && error.to_string().contains("--store memory:"), "{error}");
    Server::start_with(["--store=memory:"]).await.unwrap().drop_reply().await.unwrap();
}

/// A reply that is lost cuts the streams of waits as well. They keep their places.
#[tokio::test]
async fn a_wait_outlives_its_stream() {
    if !is_inner("a_wait_outlives_its_stream", "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    let (server, client) = start().await;
    let lock = client.acquire("orders/42").await.unwrap();
    let mut waits = Vec::new();
    for ahead in 0..2 {
        let (sender, mut position) = tokio::sync::watch::channel(None);
        let wait = client.acquire("orders/42").wait(PATIENCE).queue_position(sender);
        let wait = tokio::spawn(wait.into_future());
        tokio::time::timeout(PATIENCE, position.changed()).await.unwrap().unwrap();
        assert_eq!(*position.borrow_and_update(), Some(ahead));
        waits.push((wait, position));
    }
    server.drop_reply().await.unwrap();
    drop(client.acquire("other").await.unwrap());
    for (ahead, (_, position)) in (0..).zip(&mut waits) {
        // It has asked again, and so has the one ahead of it: a place without a call does not count meanwhile.
        tokio::time::timeout(PATIENCE, position.changed()).await.unwrap().unwrap();
        let place = position.wait_for(|place| *place == Some(ahead));
        tokio::time::timeout(PATIENCE, place).await.unwrap().unwrap();
    }
    lock.release().await.unwrap();
    let [(first, _), (second, _)] = waits.try_into().unwrap();
    let first = first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    first.release().await.unwrap();
    drop(second.await.unwrap().unwrap());
}

#[tokio::test]
async fn the_program_is_found_on_the_path() {
    let folder = Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap();
    if !is_inner("the_program_is_found_on_the_path", "PATH", folder.to_str().unwrap()) {
        return;
    }
    let server = Server::start().await.unwrap();
    let client = Client::new(server.address()).unwrap();
    client.acquire("orders/42").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn without_a_program_the_error_says_what_to_do() {
    if !is_inner("without_a_program_the_error_says_what_to_do", "PATH", "/nowhere") {
        return;
    }
    let error = Server::start().await.unwrap_err();
    assert!(matches!(error, StartError::NotRun { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("cannot run `fencepost`"), "{error}");
    assert!(error.contains("Set FENCEPOST_BIN to its path, or put `fencepost` on the PATH"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_start_shows_its_log() {
    let test = "a_server_that_does_not_start_shows_its_log";
    if !is_inner(test, "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    let error = Server::start_with(["--ttl-min", "soon"]).await.unwrap_err().to_string();
    assert!(error.contains("serve` ended") && error.contains("--ttl-min"), "{error}");
}

/// The process ids of the children of this process.
fn children() -> String {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap()).collect()
}

/// As in a test that gives up while its server starts.
#[tokio::test]
async fn a_start_that_is_dropped_leaves_no_process() {
    let test = "a_start_that_is_dropped_leaves_no_process";
    if !is_inner(test, "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    tokio::select! {
        biased;
        started = Server::start() => panic!("it cannot have started yet: {started:?}"),
        started = async { children() } => assert_ne!(started, "", "the process runs"),
    }
    assert_eq!(children(), "");
}
