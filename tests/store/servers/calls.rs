//! Calls through any server, listings and events.

use crate::crowd::*;

#[tokio::test(start_paused = true)]
async fn any_server_answers_for_any_lock() {
    let (_, _, servers) = cluster(3).await;
    let leading = || servers.iter().filter(|server| server.store.leads() > 0).count();
    until("a share for more than one", || leading() > 1).await;
    settled(&servers).await;
    for number in 0..LOCKS {
        let name = lock(number);
        let turn = |step: usize| &servers[(usize::try_from(number).unwrap() + step) % servers.len()].store;
        let request = acquire(new_request(), TTL, false);
        let grant = granted(turn(0).acquire(&name, request.clone()).await.unwrap());
        let again = granted(turn(1).acquire(&name, request).await.unwrap());
        assert_eq!((again.token, again.lease_id), (grant.token, grant.lease_id), "a repeat through another server");
        let other = turn(2).acquire(&name, acquire(new_request(), TTL, false)).await.unwrap();
        assert!(matches!(other, AcquireOutcome::Contended(_)), "{other:?}");
        let RenewOutcome::Renewed(renewed) = turn(2).renew(&name, grant.lease_id).await.unwrap() else {
            panic!("lost");
        };
        assert_eq!(renewed.token, grant.token);
        let view = turn(1).view(&name).await.unwrap();
        assert_eq!(view.current.unwrap().token, grant.token);
        assert_eq!(turn(2).release(&name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
        let next = granted(turn(1).acquire(&name, acquire(new_request(), TTL, false)).await.unwrap());
        assert!(next.token > grant.token);
    }
}

#[tokio::test(start_paused = true)]
async fn each_server_lists_the_locks_of_all() {
    let (_, _, servers) = cluster(3).await;
    let mut names = BTreeSet::new();
    for number in 0..LOCKS {
        take(&servers[0], &lock(number)).await;
        names.insert(lock(number));
    }
    for server in &servers {
        let (mut found, mut from) = (BTreeSet::new(), None);
        loop {
            let page = server.store.list("orders/", from.as_deref(), 7).await.unwrap();
            assert!(page.locks.len() <= 7);
            found.extend(page.locks.into_iter().map(|(name, _)| name));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(found, names);
        assert_eq!(server.store.list("orders/1", None, 100).await.unwrap().locks.len(), 11);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_of_all_servers_are_served_first_come_first_served() {
    let (_, _, servers) = cluster(3).await;
    for number in 0..8 {
        let name = lock(number);
        let (_, mut grant) = take(&servers[0], &name).await;
        let mut waiting = Vec::new();
        for waiter in 0..6 {
            waiting.push(waits(&servers[(waiter + 1) % 3], &name));
            queued(&servers[waiter % 3], &name, waiter + 1).await;
        }
        for (step, waiter) in waiting.into_iter().enumerate() {
            assert_eq!(servers[step % 3].store.release(&name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
            let next = served(waiter).await;
            assert!(next.token > grant.token);
            grant = next;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_watches_sees_the_events_of_all_servers_or_that_some_are_missing() {
    let (_, _, servers) = cluster(3).await;
    let watching = servers[2].locks.watch("orders/".to_owned()).await.unwrap();
    let mut seen = 0;
    for number in 0..LOCKS {
        let request = acquire(new_request(), TTL, false);
        let grant = granted(persist(async || servers[0].store.acquire(&lock(number), request.clone()).await).await);
        persist(async || servers[1].store.release(&lock(number), grant.lease_id).await).await;
        for expected in [EventKind::Granted, EventKind::Released] {
            match timeout(PATIENCE, watching.next()).await.expect("the event comes, or its loss is told") {
                Some(WatchItem::Event(event)) => {
                    assert_eq!((event.kind, event.name, event.token), (expected, lock(number), grant.token));
                    seen += 1;
                }
                // A partition changed its leader meanwhile.
                Some(WatchItem::Missed(_)) => {
                    while timeout(Duration::from_millis(100), watching.next()).await.is_ok() {}
                    break;
                }
                None => panic!("the watch ended"),
            }
        }
    }
    assert!(seen > LOCKS, "{seen} events were seen");
}

#[tokio::test]
async fn tokens_rise_also_if_the_clock_of_the_next_server_is_years_behind() {
    let (ways, mark, mut servers) = cluster(1).await;
    let (_, first) = take(&servers[0], &lock(1)).await;
    servers[0].store.leave().await;
    servers.clear();
    let clock = Arc::new(ManualClock::at(StoreTime::from_micros(1)));
    let behind = vec![Server::with_clock(&ways, &mark, clock)];
    settled(&behind).await;
    let released = behind[0].store.release(&lock(1), first.lease_id).await.unwrap();
    assert_eq!(released, ReleaseOutcome::Released);
    let (_, next) = take(&behind[0], &lock(1)).await;
    assert!(next.token > first.token);
}

#[tokio::test]
async fn a_lock_that_is_held_all_the_time_is_in_each_listing_while_others_come_and_go() {
    let (_, _, servers) = cluster(3).await;
    let mut held = BTreeSet::new();
    for number in 0..LOCKS {
        let name = LockName::new(format!("held/{number}")).unwrap();
        let request = acquire(new_request(), TTL, false);
        granted(persist(async || servers[0].store.acquire(&name, request.clone()).await).await);
        held.insert(name);
    }
    let comes_and_goes = async {
        for number in (0..20).cycle() {
            let name = LockName::new(format!("gone/{number}")).unwrap();
            let request = acquire(new_request(), TTL, false);
            if let Ok(AcquireOutcome::Granted(grant)) = servers[1].store.acquire(&name, request).await {
                let _ = servers[2].store.release(&name, grant.lease_id).await;
            }
        }
    };
    let lists = async {
        for _ in 0..30 {
            let (mut found, mut from) = (BTreeSet::new(), None);
            loop {
                // A page token of a leader that lost the lead is refused: the listing begins again.
                let Ok(page) = servers[2].store.list("", from.as_deref(), 5).await else {
                    (found, from) = (BTreeSet::new(), None);
                    sleep(Duration::from_millis(20)).await;
                    continue;
                };
                found.extend(page.locks.into_iter().map(|(name, _)| name));
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
            assert!(found.is_superset(&held), "{:?} are missing", held.difference(&found).collect::<Vec<_>>());
        }
    };
    tokio::select! {
        () = lists => {}
        () = comes_and_goes => unreachable!("it goes on"),
    }
}

#[tokio::test]
async fn a_waiter_is_served_when_the_lease_of_a_stopped_holder_ends() {
    const SHORT: Duration = Duration::from_secs(2);
    let (_, _, servers) = cluster(3).await;
    let served = (0..LOCKS).map(async |number| {
        let [holder, waiter] = [0, 1].map(|step| &servers[(usize::try_from(number).unwrap() + step) % 3]);
        let name = lock(number);
        let held = acquire(new_request(), SHORT, false);
        granted(persist(async || holder.store.acquire(&name, held.clone()).await).await);
        let begun = Instant::now();
        let grant = take_with_retries(Arc::clone(&waiter.locks), name).await;
        (grant, begun.elapsed())
    });
    for (_, took) in futures_util::future::join_all(served).await {
        // An offer that nobody heard of would lapse after the claim window only.
        assert!(took < SHORT + CLAIM_WINDOW, "{took:?}");
    }
}
