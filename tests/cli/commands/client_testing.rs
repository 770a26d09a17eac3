//! `fencepost_client::testing::Server`, with which users of the Rust client start this program in their tests.
//!
//! It reads its environment, so each test runs once more in a process of its own.

use crate::client_rules;
use fencepost_client::{
    Client, LossCause,
    testing::{Server, StartError},
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

/// The fake server passes the same tests.
#[tokio::test]
async fn it_does_what_tests_of_the_fake_server_expect() {
    let test = "it_does_what_tests_of_the_fake_server_expect";
    if !is_inner(test, "FENCEPOST_BIN", env!("CARGO_BIN_EXE_fencepost")) {
        return;
    }
    let server = Server::start().await.unwrap();
    client_rules::it_grants_in_order_and_renews(server.address()).await;
    client_rules::it_answers_questions(server.address()).await;
    client_rules::it_has_the_same_locks_for_unary_calls_and_keep_alive_streams(server.address()).await;
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
