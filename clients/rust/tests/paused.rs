//! A process that is stopped for longer than its TTL finds its lock lost when it resumes.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Fake, TTL};
use fencepost_client::{Client, LossCause, Moment};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};

const SERVER: &str = "FENCEPOST_TEST_SERVER";

/// The process to stop: this test binary again, with the server's address in the environment.
#[tokio::test]
async fn holder() {
    let Ok(server) = std::env::var(SERVER) else { return };
    let lock = Client::new(server).unwrap().acquire("x").ttl(TTL).await.unwrap();
    let lost = tokio::spawn(lock.lost());
    // Before "held" is printed, since the stop may follow at once.
    let mut last = Moment::now();
    println!("\nheld");
    loop {
        // Blocks most of the time, so that no task of the client runs: `is_valid` itself must find out.
        std::thread::sleep(Duration::from_millis(50));
        let now = Moment::now();
        if now.since(last) > TTL {
            assert!(!lock.is_valid(), "valid after a pause longer than the TTL");
            let lost = tokio::time::timeout(BOUND, lost).await.unwrap().unwrap();
            assert_eq!(lost.cause, LossCause::Silence);
            println!("\nlost");
            return;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_process_that_was_stopped_past_its_ttl_holds_nothing() {
    let fake = Fake::start().await;
    let mut holder = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder", "--nocapture"])
        .env(SERVER, &fake.url)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let id = Pid::from_raw(holder.id().unwrap().try_into().unwrap());
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    expect(&mut lines, "held").await;
    fake.until("kept alive", |state| state.streams.iter().any(|stream| !stream.answers.is_empty())).await;
    kill(id, Signal::SIGSTOP).unwrap();
    tokio::time::sleep(TTL + TTL / 2).await; // the pause itself, not a wait for something to happen
    kill(id, Signal::SIGCONT).unwrap();
    expect(&mut lines, "lost").await;
    let status = tokio::time::timeout(BOUND, holder.wait()).await.unwrap().unwrap();
    assert!(status.success());
}

async fn expect(lines: &mut tokio::io::Lines<BufReader<tokio::process::ChildStdout>>, what: &str) {
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line == what {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(BOUND, found).await.unwrap(), "the holder never said {what}");
}
