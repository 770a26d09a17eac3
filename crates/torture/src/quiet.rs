//! After the clients have ended: waits until nothing is held or waited for any more, and looks at what is left.

use crate::{clock, config, stores::Stores, topology::World};
use anyhow::{Context, Result};
use fencepost_proto::v1::{ListRequest, LockInfo, lock_service_client::LockServiceClient};
use fencepost_torture::history::{Final, Record, Rest};
use std::{collections::HashMap, time::Duration};
use tokio::time::{sleep, timeout};

/// The longest lease is of 5 s, and an offer stands for 3 s. A place in line that nobody stands on any more (a Redis
/// that lost data has it back; a cleanup could not get through) is deleted after 30 s. Rarely anything takes that
/// long.
const QUIET_MAX: Duration = Duration::from_secs(37);

/// What every lock and the whole came to.
pub(crate) async fn look(world: &World, stores: &Stores) -> Result<Vec<Record>> {
    let bound = clock::now() + clock::nanos(QUIET_MAX);
    let listed = loop {
        let is_last = clock::now() > bound;
        match list(world).await {
            Ok(listed) if is_last || listed.values().all(is_quiet) => break listed,
            Err(error) if is_last => return Err(error),
            // A machine that is busy may hold one answer up.
            Ok(_) | Err(_) => sleep(Duration::from_millis(200)).await,
        }
    };
    let totals = stores.totals();
    let mut records: Vec<Record> = config::all_locks()
        .into_iter()
        .map(|lock| {
            let totals = totals.get(&lock).copied().unwrap_or_default();
            let left = listed.get(&lock);
            Record::Final(Final {
                writes_accepted: totals.writes_accepted,
                fenced: totals.fenced,
                writes_all: totals.writes_all,
                control: totals.control,
                waiters: left.map_or(0, |lock| u64::from(lock.waiters)),
                held: left.is_some_and(|lock| !lock.holders.is_empty()),
                lock,
            })
        })
        .collect();
    let (mut crashed, mut log_errors) = (Vec::new(), Vec::new());
    for server in &world.servers {
        crashed.extend(server.crashes().await);
        log_errors.extend(server.log_errors());
    }
    let leaked_keys = leaked_keys(world).await?;
    records.push(Record::Rest(Rest { at: clock::now(), leaked_keys, crashed, log_errors }));
    Ok(records)
}

fn is_quiet(lock: &LockInfo) -> bool {
    lock.holders.is_empty() && lock.waiters == 0
}

async fn list(world: &World) -> Result<HashMap<String, LockInfo>> {
    let server = world.servers.first().context("no server")?;
    let mut client = LockServiceClient::new(server.direct().await?);
    let request = ListRequest { prefix: String::new(), page_size: 1_000, page_token: String::new() };
    let mut all = HashMap::new();
    let mut next = request;
    loop {
        let page = timeout(Duration::from_secs(2), client.list(next.clone())).await??.into_inner();
        all.extend(page.locks.into_iter().map(|lock| (lock.lock_name.clone(), lock)));
        if page.next_page_token.is_empty() {
            return Ok(all);
        }
        next.page_token = page.next_page_token;
    }
}

/// Keys that nothing will ever delete, but for the meta key and the buckets' own (incarnations, counter).
async fn leaked_keys(world: &World) -> Result<Vec<String>> {
    let Ok(redis) = world.primary() else { return Ok(Vec::new()) };
    let mut leaked = Vec::new();
    for key in redis.ask(&["KEYS", "fp:*"]).await?.list() {
        let key = key.text();
        let of_bucket = key.strip_prefix("fp:{").and_then(|rest| rest.split_once("}:")).map(|(_, own)| own);
        let stays = key == "fp:meta" || matches!(of_bucket, Some("b" | "n"));
        if !stays && redis.ask(&["PTTL", &key]).await?.int() == -1 {
            leaked.push(key);
        }
    }
    Ok(leaked)
}
