//! When leases end whose partition moves as planned: a leader tells its successor of renewals that no node has.

use crate::crowd::*;
use fencepost::testing::domain::lease::MaxHold;
use tokio::time::sleep_until;

/// Of a lease whose renewals are not written.
const SHORT: Duration = Duration::from_secs(20);

/// Takes locks for a short while, and renews them after a second: no record has that. Returns when they end.
async fn renewed(server: &Server) -> (Vec<(LockName, Grant)>, Instant) {
    let mut held = Vec::new();
    for name in (0..LOCKS).map(lock) {
        let request = acquire(new_request(), SHORT, false);
        let grant = granted(persist(async || server.store.acquire(&name, request.clone()).await).await);
        held.push((name, grant));
    }
    // The first renewal tells that the holder is there, which is written. The next ones are not.
    renew_all(server, &held).await;
    sleep(Duration::from_secs(1)).await;
    renew_all(server, &held).await;
    (held, Instant::now() + SHORT)
}

async fn renew_all(server: &Server, held: &[(LockName, Grant)]) {
    for (name, grant) in held {
        let outcome = persist(async || server.store.renew(name, grant.lease_id).await).await;
        assert!(matches!(outcome, RenewOutcome::Renewed(_)), "{outcome:?}");
    }
}

async fn holder(server: &Server, name: &LockName) -> Option<u64> {
    let view = persist(async || server.store.view(name).await).await;
    view.current.map(|current| current.token.get())
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_a_dead_holder_ends_in_time_though_its_partition_moves() {
    let (ways, mark, mut servers) = cluster(1).await;
    let (held, end) = renewed(&servers[0]).await;
    // Each partition moves once or more, and none but by a hand-over.
    servers.push(Server::start(&ways, &mark));
    until("a share for who came", || servers[1].store.leads() > 0).await;
    settled(&servers).await;
    servers.remove(0).store.leave().await;
    settled(&servers).await;
    servers.push(Server::start(&ways, &mark));
    until("a share for who came", || servers[1].store.leads() > 0).await;
    settled(&servers).await;
    assert!(Instant::now() < end, "the moves take less than a TTL");
    for (name, grant) in held {
        while let Some(token) = holder(&servers[0], &name).await {
            assert_eq!(token, grant.token.get());
            sleep(Duration::from_millis(50)).await;
        }
        let late = Instant::now().checked_duration_since(end).expect("no lease ends before its time");
        // While nobody leads, time stands still, which is a moment.
        assert!(late < Duration::from_millis(150), "{late:?} too late");
    }
}

/// As the manual says how to restart servers: the next one is drained when the one before is ready.
#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_as_soon_as_the_next_one_is_ready_hands_over() {
    let (ways, mark, mut servers) = cluster(1).await;
    let (held, end) = renewed(&servers[0]).await;
    sleep(SHORT / 2).await;
    servers.push(Server::start(&ways, &mark));
    until("the next server", || servers[1].store.is_ready()).await;
    servers.remove(0).store.leave().await;
    settled(&servers).await;
    sleep_until(end + Duration::from_millis(150)).await;
    for (name, _) in held {
        assert_eq!(holder(&servers[0], &name).await, None, "its TTL did not begin anew");
    }
}

#[tokio::test(start_paused = true)]
async fn who_hears_late_of_a_hand_over_does_not_forget_renewals_since() {
    let (ways, mark, mut servers) = cluster(1).await;
    ways.to_all(|frame| match frame {
        Frame::HandOver { .. } => Fate::Late(Duration::from_secs(4)),
        _ => Fate::Comes,
    });
    let (held, _) = renewed(&servers[0]).await;
    servers.push(Server::start(&ways, &mark));
    // After two seconds it hands over, and when nobody has taken over for a second, it goes on.
    sleep(Duration::from_millis(4_500)).await;
    renew_all(&servers[0], &held).await;
    let end = Instant::now() + SHORT;
    assert_eq!(servers[1].store.leads(), 0, "what it told is late");
    until("the hand-over", || servers[1].store.leads() > 0).await;
    settled(&servers).await;
    sleep_until(end - Duration::from_secs(1)).await;
    for (name, grant) in held {
        assert_eq!(holder(&servers[0], &name).await, Some(grant.token.get()), "its holder may count on it");
    }
}

/// Who takes over from the dead begins TTLs anew, because renewals may be missing, but none beyond its `max_hold`.
#[tokio::test(start_paused = true)]
async fn a_takeover_begins_no_ttl_beyond_the_max_hold() {
    const MAX_HOLD: Duration = Duration::from_secs(25);
    // The store's time stands still while nobody leads.
    const LEADERLESS_MAX: Duration = Duration::from_secs(4);
    let (ways, mark, mut servers) = cluster(1).await;
    let (mut held, taken) = (Vec::new(), Instant::now());
    for name in (0..LOCKS).map(lock) {
        let mut request = acquire(new_request(), SHORT, false);
        request.terms.max_hold = MaxHold::new(MAX_HOLD);
        held.push((name.clone(), granted(servers[0].store.acquire(&name, request).await.unwrap())));
    }
    renew_all(&servers[0], &held).await;
    sleep(Duration::from_secs(15)).await;
    renew_all(&servers[0], &held).await;
    servers.push(Server::start(&ways, &mark));
    drop(servers.remove(0));
    until("a new leader", || servers[0].store.leads() == usize::from(PARTITIONS)).await;
    for (name, grant) in held {
        assert_eq!(holder(&servers[0], &name).await, Some(grant.token.get()), "its holder may count on it");
        sleep_until(taken + MAX_HOLD - Duration::from_millis(100)).await;
    }
    sleep_until(taken + MAX_HOLD + LEADERLESS_MAX).await;
    for name in (0..LOCKS).map(lock) {
        assert_eq!(holder(&servers[0], &name).await, None, "it is over after its max_hold");
    }
}
