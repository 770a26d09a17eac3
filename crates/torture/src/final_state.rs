//! Waits until no lock is held or waited for after the clients have stopped, and records what is left behind.

use crate::{clock, config, redis::Redis, sampling, stores::Stores, topology::Deployment};
use anyhow::{Context, Result};
use fencepost_proto::v1::{ListRequest, ListWaitersRequest, LockInfo, lock_service_client::LockServiceClient};
use fencepost_torture::history::{Final, Leftovers, Record};
use std::{collections::HashMap, time::Duration};
use tokio::time::{sleep, timeout};

/// The longest lease lasts 5 s, and an offer 3 s. The queue position of a departed waiter (restored by a Redis that
/// lost data, or left by a cleanup that failed) is deleted after 30 s. Usually it takes much less.
const QUIET_MAX: Duration = Duration::from_secs(37);

/// The final state of all locks, and the leftovers.
pub(crate) async fn record(deployment: &Deployment, stores: &Stores) -> Result<Vec<Record>> {
    let bound = clock::now() + clock::nanos(QUIET_MAX);
    let listed = loop {
        let is_last = clock::now() > bound;
        match list(deployment).await {
            Ok(listed) if is_last || listed.values().all(is_quiet) => break listed,
            Err(error) if is_last => return Err(error),
            // A busy machine may delay one answer.
            Ok(_) | Err(_) => sleep(Duration::from_millis(200)).await,
        }
    };
    let mut waiting = waiters_of(deployment, &listed).await?;
    let totals = stores.totals();
    let mut records: Vec<Record> = config::all_fences()
        .into_iter()
        .map(|lock| {
            let totals = totals.get(&lock).copied().unwrap_or_default();
            let remaining = listed.get(&lock);
            Record::Final(Final {
                writes_accepted: totals.writes_accepted,
                fenced: totals.fenced,
                writes_all: totals.writes_all,
                control: totals.control,
                waiters: remaining.map_or(0, |lock| u64::from(lock.waiters)),
                waiting: waiting.remove(&lock).unwrap_or_default(),
                held: remaining.is_some_and(|lock| !lock.holders.is_empty()),
                lock,
            })
        })
        .collect();
    if deployment.quorum.is_some() {
        records.extend(agreement(deployment).await?);
    }
    let (mut crashed, mut log_errors) = (Vec::new(), Vec::new());
    for server in &deployment.servers {
        crashed.extend(server.crashes().await);
        log_errors.extend(server.log_errors());
    }
    let leaked_keys = leaked_keys(deployment).await?;
    records.push(Record::Leftovers(Leftovers { at: clock::now(), leaked_keys, crashed, log_errors }));
    Ok(records)
}

fn is_quiet(lock: &LockInfo) -> bool {
    lock.holders.is_empty() && lock.waiters == 0
}

/// Who still waits, by lock, with what the lock is after that look.
async fn waiters_of(
    deployment: &Deployment,
    listed: &HashMap<String, LockInfo>,
) -> Result<HashMap<String, Vec<String>>> {
    let server = deployment.servers.first().context("no server")?;
    let mut client = LockServiceClient::new(server.direct().await?);
    let mut all = HashMap::new();
    for (name, _) in listed.iter().filter(|(_, lock)| lock.waiters > 0) {
        let request = ListWaitersRequest { lock_name: name.clone(), ..ListWaitersRequest::default() };
        let page = timeout(Duration::from_secs(2), client.list_waiters(request)).await??.into_inner();
        let waiters = page.waiters.iter().map(|waiter| format!("{waiter:?}"));
        all.insert(name.clone(), waiters.chain(page.lock.map(|lock| format!("{lock:?}"))).collect());
    }
    Ok(all)
}

async fn list(deployment: &Deployment) -> Result<HashMap<String, LockInfo>> {
    let server = deployment.servers.first().context("no server")?;
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

/// What the nodes of a quorum keep: while the servers write, and after they were drained.
async fn agreement(deployment: &Deployment) -> Result<Vec<Record>> {
    let quorum = deployment.quorum.as_ref().context("no quorum here")?;
    let mut records = vec![Record::Voting(quorum.until_all_vote("everything").await?)];
    records.extend(sampling::until_alike(deployment).await);
    for server in &deployment.servers {
        server.drain().await?;
    }
    for kept in sampling::all(deployment).await {
        records.extend(kept.context("reading what a node keeps")?.into_iter().map(Record::Kept));
    }
    Ok(records)
}

async fn leaked_keys(deployment: &Deployment) -> Result<Vec<String>> {
    let mut leaked = Vec::new();
    // Of a cluster, only the primary of the slot tells of its keys.
    let nodes = match &deployment.cluster {
        Some(_) => std::slice::from_ref(deployment.primary()?),
        None => &deployment.redis,
    };
    for node in nodes {
        // The node's cluster and the prefix of classic clients; headers, sequencers and contents of partitions.
        let of_cluster = |key: &str| matches!(key, "{fp}:node" | "{fp}:servers" | "{fp}:classic");
        let stays = |key: &str, own: Option<&str>| of_cluster(key) || matches!(own, Some("h" | "s" | "c"));
        leaked.extend(leaked_from(node, stays).await?);
    }
    Ok(leaked)
}

/// Keys without a TTL, except those that stay: by the whole key, and by its part after the partition.
async fn leaked_from(redis: &Redis, stays: impl Fn(&str, Option<&str>) -> bool) -> Result<Vec<String>> {
    let mut leaked = Vec::new();
    for key in redis.ask(&["KEYS", "{fp}:*"]).await?.list() {
        let key = key.text();
        let own = key.strip_prefix("{fp}:q").and_then(|rest| rest.split_once(':')).map(|(_, own)| own);
        let stays = stays(&key, own);
        if !stays && redis.ask(&["PTTL", &key]).await?.int() == -1 {
            leaked.push(key);
        }
    }
    Ok(leaked)
}
