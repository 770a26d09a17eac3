//! Above the quotas of a real server. `cargo build` and `cargo test --workspace` build its program; `FENCEPOST_BIN`
//! names another one.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

use fencepost_client::{AcquireError, Client, Moment};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs};
use tokio::time::timeout;

/// The bound of every wait.
const BOUND: Duration = Duration::from_secs(30);

/// A server process with a quota. Dropped, it is killed.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    async fn start(quota: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("access"), format!("mode = \"open\"\n[[quota]]\neach_address = true\n{quota}\n")).unwrap();
        let mut command = Command::new(program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "none", "--admin-service", "everywhere"]);
        command.arg("--access").arg(path("access")).arg("--port-file").arg(path("port"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(path("log")).unwrap());
        let mut server = Self { process: command.spawn().unwrap(), address: String::new() };
        let listens = async {
            while server.address.is_empty() {
                let log = || fs::read_to_string(path("log")).unwrap();
                assert!(server.process.try_wait().unwrap().is_none(), "the server ended: {}", log());
                tokio::time::sleep(Duration::from_millis(5)).await;
                // The server renames a complete file to this name.
                server.address = fs::read_to_string(path("port")).unwrap_or_default().trim().to_owned();
            }
        };
        timeout(BOUND, listens).await.unwrap();
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> PathBuf {
    let beside = || env::current_exe().unwrap().parent().unwrap().with_file_name("fencepost");
    let program = env::var_os("FENCEPOST_BIN").map_or_else(beside, PathBuf::from);
    assert!(program.exists(), "{} is missing: cargo build", program.display());
    program
}

/// An address that counts as a server, to which nobody may connect.
fn another_server() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// A client of the server, and of another one after it.
fn client(server: &Server, other: &TcpListener) -> Client {
    let builder = Client::builder().server(&server.address).server(other.local_addr().unwrap().to_string());
    builder.build().unwrap()
}

fn retry_after(error: &AcquireError) -> Duration {
    match error {
        AcquireError::Exhausted { reason, retry_after: Some(delay), .. } if reason == "QUOTA_EXCEEDED" => *delay,
        _ => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn an_acquire_that_waits_gets_its_lock_at_the_rate_of_the_quota() {
    let server = Server::start("acquires_per_second = 2\nburst = 2").await;
    let other = another_server();
    let client = client(&server, &other);
    let mut locks = vec![client.acquire("a/1").await.unwrap(), client.acquire("a/2").await.unwrap()];
    let delay = retry_after(&client.acquire("a/3").await.unwrap_err());
    assert!(delay > Duration::ZERO && delay <= Duration::from_millis(500), "{delay:?}");
    let began = Moment::now();
    locks.push(client.acquire("a/3").wait(BOUND).await.unwrap());
    assert!(Moment::now().since(began) > Duration::from_millis(50), "it was above the quota");
    for lock in locks {
        assert!(lock.release().await.unwrap().was_held(), "a release is never above it");
    }
    assert!(other.accept().is_err(), "the other server is not tried");
}

#[tokio::test]
async fn a_session_above_the_quota_works_once_another_stream_is_closed() {
    let server = Server::start("streams = 1").await;
    let other = another_server();
    let (first, second) = (client(&server, &other), client(&server, &other));
    let lock = first.acquire("a/1").await.unwrap();
    let mut waiting = tokio::spawn(second.acquire("a/2").wait(BOUND).into_future());
    timeout(Duration::from_millis(300), &mut waiting).await.unwrap_err();
    // The last lock of the first client closes its session.
    drop(first);
    lock.release().await.unwrap();
    let lock = timeout(BOUND, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!(lock.name(), "a/2");
    assert!(other.accept().is_err(), "the other server is not tried");
}
