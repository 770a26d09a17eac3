//! Servers of two versions: nothing that one does not know reaches it. A server that tells no features stands for one
//! of the version before, which `make two-versions` runs.

use crate::crowd::*;
use fencepost::testing::domain::{
    command::Command,
    lease::{Delays, Extra, MaxHold, Terms},
    mode::{ConvertTo, Mode, PermitLimit, Permits},
    name::{Metadata, Owner},
};
use fencepost::testing::store::Store;

/// Longer than anything here takes.
const MAX_HOLD: Duration = Duration::from_secs(3_600);

/// Of all that a server of the version before does not know.
fn terms_to_refuse() -> [(&'static str, Terms); 6] {
    let plain = || acquire(new_request(), TTL, false).terms;
    let extra = || Extra::of_delays(Delays::new(MAX_HOLD, Duration::ZERO));
    let owned = Extra { owner: Owner::new("batch".to_owned()).unwrap(), ..Extra::default() }.boxed();
    [
        ("max_hold", Terms { max_hold: MaxHold::new(MAX_HOLD), ..plain() }),
        ("min_hold or lock_delay", Terms { extra: extra(), ..plain() }),
        ("min_hold or lock_delay in mode SHARED or SEMAPHORE", Terms { extra: extra(), mode: semaphore(), ..plain() }),
        ("mode SHARED", Terms { mode: Mode::Shared, ..plain() }),
        ("mode SEMAPHORE", Terms { mode: semaphore(), ..plain() }),
        ("owner, max_waiters, tell_when_wanted or ListWaiters", Terms { extra: owned, ..plain() }),
    ]
}

/// That a server of the version before does not know at all.
fn commands_to_refuse(grant: &Grant) -> [(&'static str, Command); 3] {
    let Grant { lease_id, token, .. } = *grant;
    let (metadata, to) = (Metadata::default(), ConvertTo::Shared);
    [
        ("Convert", Command::Convert { lease_id, token, to }),
        ("Describe", Command::Describe { lease_id, metadata, holder: None, number: 1 }),
        ("owner, max_waiters, tell_when_wanted or ListWaiters", Command::ListWaiters { after: None, max: 1 }),
    ]
}

/// A permit of two.
fn semaphore() -> Mode {
    let limit = PermitLimit { permits: 2, version: 0 };
    Mode::Semaphore(Box::new(Permits::new(1, limit).unwrap()))
}

fn bounded(wait: bool) -> Acquire {
    let mut bounded = acquire(new_request(), TTL, wait);
    bounded.terms.max_hold = MaxHold::new(MAX_HOLD);
    bounded
}

/// A server of the version before.
fn start_old(ways: &Arc<Ways>, mark: &Mark) -> Server {
    ways.tells_nothing.store(true, Ordering::Relaxed);
    Server::start(ways, mark)
}

async fn old_leads(servers: &[Server], old: usize, leads: usize) {
    until("the share of the old server", || servers[old].store.leads() == leads).await;
    settled(servers).await;
}

#[tokio::test(start_paused = true)]
async fn what_some_server_does_not_know_is_refused_until_it_is_gone() {
    let (ways, mark, mut servers) = cluster(2).await;
    level(&servers).await;
    servers.push(start_old(&ways, &mark));
    settled(&servers).await;
    let first = &servers[0];
    let seen_by = Instant::now() + PATIENCE;
    while let Ok(taken) = first.store.acquire(&lock(0), bounded(false)).await {
        assert!(Instant::now() < seen_by, "the old server is seen");
        release(first, &(lock(0), granted(taken))).await;
        sleep(Duration::from_millis(50)).await;
    }
    for name in (0..LOCKS).map(lock) {
        for (feature, terms) in terms_to_refuse() {
            let refused = first.store.acquire(&name, Acquire { terms, ..bounded(true) }).await;
            assert_eq!(refused, Err(StoreError::NotAllServers { feature: feature.to_owned(), lacking: 1, all: 3 }));
            assert!(refused.unwrap_err().is_nothing_done());
        }
        let (_, grant) = take(first, &name).await;
        for (feature, command) in commands_to_refuse(&grant) {
            let refused = Store::run(&*first.store, &name, command).await.map(drop);
            assert_eq!(refused, Err(StoreError::NotAllServers { feature: feature.to_owned(), lacking: 1, all: 3 }));
        }
        release(first, &(name, grant)).await;
    }
    servers.truncate(2);
    for name in (0..LOCKS).map(lock) {
        let granted = persist(async || match servers[0].store.acquire(&name, bounded(false)).await {
            // It may still live, as far as can be seen.
            Err(StoreError::NotAllServers { .. }) => Err(StoreError::TooLate),
            answer => answer,
        });
        let grant = crate::crowd::granted(granted.await);
        assert_eq!(grant.left, TTL);
    }
    assert_eq!(ways.new_to_silent.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_goes_to_no_server_that_cannot_read_it() {
    let (ways, mark, mut servers) = cluster(1).await;
    let mut held = Vec::new();
    for name in (0..LOCKS).map(lock) {
        held.push((name.clone(), granted(servers[0].store.acquire(&name, bounded(false)).await.unwrap())));
    }
    servers.push(start_old(&ways, &mark));
    sleep(PATIENCE).await;
    assert_eq!(servers[1].store.leads(), 0, "each partition has a lease with a bound");
    for held in &held {
        release(&servers[0], held).await;
    }
    old_leads(&servers, 1, 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_all_gets_partitions_before_one_that_does_not() {
    let (ways, mark, mut servers) = cluster(3).await;
    level(&servers).await;
    servers.push(start_old(&ways, &mark));
    sleep(PATIENCE).await;
    assert_eq!(servers[3].store.leads(), 0);
    // Who leaves gives what it has to those that can read it.
    servers.remove(0).store.leave().await;
    level(&servers[..2]).await;
    sleep(PATIENCE).await;
    assert_eq!(servers[2].store.leads(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_with_a_delay_goes_to_no_server_that_cannot_read_it() {
    a_partition_with_delays_goes_to_no_server_that_cannot_read_it(&Mode::Exclusive).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_with_a_ghost_goes_to_no_server_that_cannot_read_it() {
    a_partition_with_delays_goes_to_no_server_that_cannot_read_it(&semaphore()).await;
}

async fn a_partition_with_delays_goes_to_no_server_that_cannot_read_it(mode: &Mode) {
    let (ways, mark, mut servers) = cluster(1).await;
    let delay = 4 * PATIENCE;
    for name in (0..LOCKS).map(lock) {
        let mut delayed = acquire(new_request(), TTL, false);
        delayed.terms.extra = Extra::of_delays(Delays::new(delay, Duration::ZERO));
        delayed.terms.mode = mode.clone();
        let grant = granted(servers[0].store.acquire(&name, delayed).await.unwrap());
        release(&servers[0], &(name, grant)).await;
    }
    servers.push(start_old(&ways, &mark));
    sleep(PATIENCE).await;
    assert_eq!(servers[1].store.leads(), 0, "each partition has a lock with a delay");
    sleep(delay).await;
    old_leads(&servers, 1, 4).await;
    assert_eq!(ways.new_to_silent.load(Ordering::Relaxed), 0);
}

/// It would lose what the holder said of itself.
#[tokio::test(start_paused = true)]
async fn a_partition_with_a_description_goes_to_no_server_that_cannot_read_it() {
    let (ways, mark, mut servers) = cluster(1).await;
    let mut held = Vec::new();
    for name in (0..LOCKS).map(lock) {
        let (_, grant) = take(&servers[0], &name).await;
        let [_, (_, describe), _] = commands_to_refuse(&grant);
        Store::run(&*servers[0].store, &name, describe).await.unwrap();
        held.push((name, grant));
    }
    servers.push(start_old(&ways, &mark));
    sleep(PATIENCE).await;
    assert_eq!(servers[1].store.leads(), 0, "each partition has a described lease");
    for held in &held {
        release(&servers[0], held).await;
    }
    old_leads(&servers, 1, 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_with_a_shared_lease_goes_to_no_server_that_cannot_read_it() {
    a_partition_with_leases_goes_to_no_server_that_cannot_read_it(&Mode::Shared).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_with_a_semaphore_goes_to_no_server_that_cannot_read_it() {
    a_partition_with_leases_goes_to_no_server_that_cannot_read_it(&semaphore()).await;
}

async fn a_partition_with_leases_goes_to_no_server_that_cannot_read_it(mode: &Mode) {
    let (ways, mark, mut servers) = cluster(1).await;
    let mut held = Vec::new();
    for name in (0..LOCKS).map(lock) {
        let mut shared = acquire(new_request(), TTL, false);
        shared.terms.mode = mode.clone();
        held.push((name.clone(), granted(servers[0].store.acquire(&name, shared).await.unwrap())));
    }
    servers.push(start_old(&ways, &mark));
    sleep(PATIENCE).await;
    assert_eq!(servers[1].store.leads(), 0, "each partition has a lease of this mode");
    for held in &held {
        release(&servers[0], held).await;
    }
    old_leads(&servers, 1, 4).await;
    assert_eq!(ways.new_to_silent.load(Ordering::Relaxed), 0);
}

/// An earlier server would not take the waiter over, and would give the lock to those who come later.
#[tokio::test(start_paused = true)]
async fn a_partition_that_a_request_waits_in_goes_to_no_server_that_does_not_know_its_terms() {
    let (ways, mark, mut servers) = cluster(1).await;
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in (0..LOCKS).map(lock) {
        held.push((name.clone(), take(&servers[0], &name).await.1));
        let mut call = acquire_call(new_request(), 1, TTL, WAIT);
        call.terms.max_hold = MaxHold::new(MAX_HOLD);
        waiting.push(waits_as(&servers[0], &name, call));
        queued(&servers[0], &name, 1).await;
        waiting.push(waits(&servers[0], &name));
        queued(&servers[0], &name, 2).await;
    }
    servers.push(start_old(&ways, &mark));
    sleep(PATIENCE).await;
    assert_eq!(servers[1].store.leads(), 0, "each partition has a waiter with a bound");
    let mut waiting = waiting.into_iter();
    for held in held {
        release(&servers[0], &held).await;
        let grant = served(waiting.next().unwrap()).await;
        release(&servers[0], &(held.0.clone(), grant)).await;
        let next = served(waiting.next().unwrap()).await;
        assert!(next.token > grant.token);
        release(&servers[0], &(held.0, next)).await;
    }
    old_leads(&servers, 1, 4).await;
    assert_eq!(ways.new_to_silent.load(Ordering::Relaxed), 0);
}
