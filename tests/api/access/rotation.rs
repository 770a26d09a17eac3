//! All credentials are replaced while clients hold locks and acquire others.

use crate::{
    support::{until, within},
    world::{Files, ISSUER, World, claims, rule, token},
};
use fencepost::testing::domain::limits::PERMISSION_CHECK_PERIOD;
use fencepost_client::Client;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

const CLIENTS: usize = 8;
const HELD_BY_EACH: usize = 5;
/// Of the leases that are held all the time: shorter than the rotation, so that none lasts by itself.
const TTL: Duration = Duration::from_secs(6);
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lease_is_lost_when_all_tokens_are_replaced() {
    let files = Files::new();
    let file = |tokens: &[usize]| {
        let tokens = tokens.iter().map(|number| token("app", &format!("secret-{number}")));
        "mode = \"enforce\"\n".to_owned() + &tokens.collect::<String>() + &rule("app", &["acquire", "read"], &["app/"])
    };
    files.rules(&file(&[0]));
    files.write("token", "secret-0");
    let world = World::start(&files).await;
    let (over, pairs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let path = files.path("token");
        let client = Client::builder()
            .server(world.addr.to_string())
            .bearer_token(move || Ok(fs::read_to_string(&path)?))
            .build()
            .unwrap();
        let (over, pairs) = (over.clone(), pairs.clone());
        tasks.push(tokio::spawn(async move {
            let mut held = Vec::new();
            for lock in 0..HELD_BY_EACH {
                held.push(client.acquire(format!("app/held/{number}/{lock}")).ttl(TTL).await.unwrap());
            }
            let mut refused = 0;
            while !over.load(Relaxed) {
                match client.acquire(format!("app/pair/{number}")).ttl(TTL).await {
                    Ok(lock) => drop(lock.release().await),
                    // None should be: the client repeats on its next session what was under way.
                    Err(_) => refused += 1,
                }
                pairs.fetch_add(1, Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let lost = held.iter().filter(|lock| !lock.is_valid()).count();
            for lock in held {
                lock.release().await.unwrap();
            }
            (lost, refused)
        }));
    }
    for round in 0..ROUNDS {
        let reloads = || world.metric("fencepost_access_reloads_total", "ok");
        let before = reloads().await;
        files.rules(&file(&[round, round + 1]));
        until(async || reloads().await == before + 1.0).await;
        files.write("token", &format!("secret-{}", round + 1));
        tokio::time::sleep(Duration::from_secs(1)).await;
        files.rules(&file(&[round + 1]));
        until(async || reloads().await == before + 2.0).await;
        // Streams with the old token end, and their leases are attached to others.
        tokio::time::sleep(TTL).await;
    }
    let before = pairs.load(Relaxed);
    until(async || pairs.load(Relaxed) > before + CLIENTS).await;
    over.store(true, Relaxed);
    let mut refused_in_all = 0;
    for task in tasks {
        let (lost, refused) = within(task).await.unwrap();
        assert_eq!(lost, 0);
        refused_in_all += refused;
    }
    assert_eq!(world.metric("fencepost_losses_total", "").await, 0.0);
    let renewals = world.metric("fencepost_renewals_total", "outcome=\"renewed\"").await;
    assert!(renewals > (CLIENTS * HELD_BY_EACH * ROUNDS) as f64, "{renewals}");
    assert_eq!(refused_in_all, 0, "a session that ends with its credentials repeats what was under way");
}

#[tokio::test]
async fn tokens_of_five_seconds_carry_a_lease_for_as_long_as_it_is_held() {
    let files = Arc::new(Files::new());
    files.rules(&format!("mode = \"enforce\"\n{ISSUER}{}", rule("k8s:app", &["acquire"], &["app/"])));
    let world = World::start(&files).await;
    let issued = Arc::new(AtomicUsize::new(0));
    let (issuing, counted) = (files.clone(), issued.clone());
    let fresh = move || {
        counted.fetch_add(1, Relaxed);
        Ok(issuing.issuer.token("ES256", &claims("app", 5)))
    };
    let client = Client::builder().server(world.addr.to_string()).bearer_token(fresh).build().unwrap();
    let held = within(async { client.acquire("app/held").ttl(TTL).await.unwrap() }).await;
    // Less than the period in which streams are looked at: one ends with the first renewal that is refused.
    let short = PERMISSION_CHECK_PERIOD - Duration::from_millis(500);
    let short = within(async { client.acquire("app/short").ttl(short).await.unwrap() }).await;
    let (begun, mut pairs) = (Instant::now(), 0);
    while begun.elapsed() < 4 * TTL {
        let pair = within(async { client.acquire("app/pair").ttl(TTL).await }).await.unwrap();
        pair.release().await.unwrap();
        assert!(held.is_valid() && short.is_valid(), "after {:?} and {pairs} pairs", begun.elapsed());
        pairs += 1;
    }
    held.release().await.unwrap();
    short.release().await.unwrap();
    assert!(issued.load(Relaxed) >= 4, "sessions ended with their tokens");
    assert_eq!(world.metric("fencepost_losses_total", "").await, 0.0);
}
