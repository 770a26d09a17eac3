//! Measures the client with a real server on this machine, which shares its processors: the memory of held locks, and
//! pairs of acquire and release a second. The README has the command.
//!
//! `bench [SECONDS]`: how long pairs are counted, 5 by default, after as long to warm up.

use fencepost_client::{Client, Lock, Moment, testing::Server};
use std::error::Error;
use std::time::Duration;
use tokio::task::JoinSet;

/// Tasks that acquire and release side by side.
const TASKS: usize = 64;
/// The locks that are held at once, and their TTL.
const HELD: usize = 10_000;
const TTL: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |seconds| seconds.parse())?;
    let server = Server::start().await?;
    let client = Client::new(server.address())?;
    client.acquire("warm").await?.release().await?;
    memory(&client).await?;
    let time = Duration::from_secs(seconds);
    pairs(&client, time).await?;
    println!("{:.0} pairs/s with {TASKS} tasks on one client", pairs(&client, time).await?);
    Ok(())
}

/// Pairs a second.
async fn pairs(client: &Client, time: Duration) -> Result<f64, Failure> {
    let start = Moment::now();
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let (client, name) = (client.clone(), format!("pairs/{number}"));
        tasks.spawn(async move {
            let mut count = 0_u32;
            while Moment::now().since(start) < time {
                client.acquire(&name).ttl(TTL).await?.release().await?;
                count += 1;
            }
            Ok::<_, Failure>(count)
        });
    }
    let mut sum = 0.0;
    while let Some(count) = tasks.join_next().await {
        sum += f64::from(count??);
    }
    Ok(sum / Moment::now().since(start).as_secs_f64())
}

/// Prints the memory that held locks take in this process.
async fn memory(client: &Client) -> Result<(), Failure> {
    let before = resident()?;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut locks = Vec::new();
            for number in (task..HELD).step_by(TASKS) {
                locks.push(client.acquire(format!("held/{number}")).ttl(TTL).await?);
            }
            Ok::<_, Failure>(locks)
        });
    }
    let mut locks: Vec<Lock> = Vec::with_capacity(HELD);
    while let Some(acquired) = tasks.join_next().await {
        locks.extend(acquired??);
    }
    let after = resident()?;
    if locks.len() != HELD || !locks.iter().all(|lock| lock.is_valid()) {
        return Err("a lock was lost".into());
    }
    let each = after.saturating_sub(before) / HELD as u64;
    println!("{each} bytes of resident memory for each of {HELD} held locks ({before} before, {after} after)");
    drop(locks);
    client.flush().await;
    Ok(())
}

/// The bytes of memory of this process, on Linux.
fn resident() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: u64 = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmRSS")?.parse()?;
    Ok(kilobytes * 1024)
}
