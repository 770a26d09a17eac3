//! Changes of the leader: it dies, leaves, or hands over.

use crate::crowd::*;

#[tokio::test(start_paused = true)]
async fn waiters_keep_their_order_when_the_leader_dies_and_leases_their_tokens() {
    let (_, _, mut servers) = cluster(3).await;
    servers.sort_by_key(|server| Reverse(server.store.leads()));
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push((lock(number), take(&servers[1], &lock(number)).await.1));
    }
    let mut waiting = Vec::new();
    for (name, _) in &held {
        let mut queue = Vec::new();
        for waiter in 0..4 {
            queue.push(waits(&servers[1 + waiter % 2], name));
            queued(&servers[1], name, waiter + 1).await;
        }
        waiting.push(queue);
    }
    let dying = servers.remove(0);
    assert!(dying.store.leads() > 0, "else its death shows nothing");
    drop(dying);
    settled(&servers).await;
    for ((name, mut grant), queue) in held.into_iter().zip(waiting) {
        let view = persist(async || servers[0].store.view(&name).await).await;
        assert_eq!(view.current.unwrap().token, grant.token);
        for waiter in queue {
            let released = persist(async || servers[0].store.release(&name, grant.lease_id).await).await;
            assert_eq!(released, ReleaseOutcome::Released);
            let next = served(waiter).await;
            assert!(next.token > grant.token);
            grant = next;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_hands_over_within_a_moment_and_one_that_comes_gets_its_share() {
    let (ways, mark, mut servers) = cluster(2).await;
    let name = lock(0);
    let (_, mut grant) = take(&servers[0], &name).await;
    let mut waiting = Vec::new();
    for waiter in 0..4 {
        waiting.push(waits(&servers[1], &name));
        queued(&servers[0], &name, waiter + 1).await;
    }
    let leaving = servers.remove(0);
    let begun = Instant::now();
    leaving.store.leave().await;
    let took = begun.elapsed();
    assert_eq!(leaving.store.leads(), 0);
    drop(leaving);
    for number in 0..LOCKS {
        persist(async || servers[0].store.acquire(&lock(number), acquire(new_request(), TTL, false)).await).await;
    }
    assert!(took < Duration::from_secs(1), "{took:?}: it was taken for dead, not asked to hand over");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}: its successor waited for what it did not say any more");
    settled(&servers).await;
    servers.push(Server::start(&ways, &mark));
    servers.push(Server::start(&ways, &mark));
    until("a share for those who came", || servers.iter().filter(|server| server.store.leads() > 0).count() > 1).await;
    settled(&servers).await;
    for (step, waiter) in waiting.into_iter().enumerate() {
        let server = &servers[step % servers.len()];
        let released = persist(async || server.store.release(&name, grant.lease_id).await).await;
        assert_eq!(released, ReleaseOutcome::Released);
        let next = served(waiter).await;
        assert!(next.token > grant.token);
        grant = next;
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_server_that_leaves_keeps_nobody_waiting() {
    let (ways, mark, mut servers) = cluster(1).await;
    let (_, grant) = take(&servers[0], &lock(1)).await;
    servers[0].store.leave().await;
    servers.clear();
    let begun = Instant::now();
    let next = vec![Server::start(&ways, &mark)];
    settled(&next).await;
    take(&next[0], &lock(2)).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(600), "{took:?}: it waited for a server that had said that it leaves");
    assert_eq!(next[0].store.view(&lock(1)).await.unwrap().current.unwrap().token, grant.token);
}

#[tokio::test(start_paused = true)]
async fn who_gave_up_before_the_new_leader_knew_of_it_is_granted_nothing() {
    let (ways, mut servers, held) = with_held_locks().await;
    let mut waiting = Vec::new();
    for (number, (name, _)) in held.iter().enumerate() {
        let call = acquire_call(new_request(), 1, TTL, Duration::from_secs(8));
        // One of the two does not lead the partition afterwards.
        waiting.push(waits_as(&servers[1 + number % 2], name, call));
        queued(&servers[1], name, 1).await;
    }
    ways.to_all(loses_waiters);
    drop(servers.remove(0));
    let mut forgotten = 0;
    for waiter in waiting {
        match timeout(PATIENCE, waiter).await.unwrap().unwrap() {
            Ok(AcquireAnswer::TimedOut(_)) => {}
            Err(LocksError::Forgotten) => forgotten += 1,
            // While nobody led.
            Err(LocksError::Store(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(forgotten > 0, "else all were presented, and this shows nothing");
    ways.to_all(|_| Fate::Comes);
    for held in &held {
        release(&servers[0], held).await;
    }
    sleep(Duration::from_secs(6)).await;
    all_are_free(&servers[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_presented_late_and_was_dropped_meanwhile_is_granted_nothing() {
    let (ways, mut servers, held) = with_held_locks().await;
    let mut waiting = Vec::new();
    for (name, _) in &held {
        waiting.push(waits(&servers[2], name));
        queued(&servers[1], name, 1).await;
    }
    ways.to_all(delays_waiters);
    drop(servers.remove(0));
    settled(&servers).await;
    for (waiting, held) in waiting.into_iter().zip(&held) {
        waiting.abort();
        release(&servers[0], held).await;
    }
    sleep(Duration::from_secs(8)).await;
    all_are_free(&servers[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_place_when_the_leader_dies() {
    let (_, mut servers, held) = with_held_locks().await;
    let mut waiting = Vec::new();
    for (name, _) in &held {
        let request = new_request();
        let overtaken = waits_as(&servers[1], name, acquire_call(request, 1, TTL, WAIT));
        queued(&servers[1], name, 1).await;
        let second = waits(&servers[1], name);
        queued(&servers[1], name, 2).await;
        let retry = waits_as(&servers[2], name, acquire_call(request, 2, TTL, WAIT));
        let end = timeout(PATIENCE, overtaken).await.unwrap().unwrap();
        assert!(matches!(end, Err(LocksError::Overtaken)), "{end:?}");
        waiting.push((retry, second));
    }
    drop(servers.remove(0));
    for (held, (retry, second)) in held.into_iter().zip(waiting) {
        release(&servers[0], &held).await;
        let first = served(retry).await;
        release(&servers[0], &(held.0, first)).await;
        assert!(served(second).await.token > first.token);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_server_that_was_silent_are_served_when_it_is_back() {
    // Its waiters are skipped after 3 s, and after 30 s deleted by what is done with their locks then. In between
    // nothing is, once it is forgotten how the leases ended.
    for (silence, until_release) in [(20, 6), (40, 6), (40, 39)] {
        let (ways, mark, mut servers) = cluster(1).await;
        let mut held = Vec::new();
        for number in 0..LOCKS {
            held.push((lock(number), take(&servers[0], &lock(number)).await.1));
        }
        servers.push(Server::start(&ways, &mark));
        settled(&servers).await;
        let waiting: Vec<_> = held.iter().map(|(name, _)| waits(&servers[1], name)).collect();
        for (name, _) in &held {
            queued(&servers[0], name, 1).await;
        }
        assert_eq!(servers[0].store.leads(), usize::from(PARTITIONS), "it has not settled");
        let mut silent = servers.remove(1);
        let away = tokio::spawn(async move {
            silent.pause(Duration::from_secs(silence)).await;
            silent
        });
        sleep(Duration::from_secs(until_release)).await;
        for held in &held {
            release(&servers[0], held).await;
        }
        // It gets its share of the partitions soon. The others stay where they are.
        let _back = away.await.unwrap();
        for (waiting, (_, grant)) in waiting.into_iter().zip(held) {
            assert!(served(waiting).await.token > grant.token);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_which_nothing_comes_costs_a_moment_and_is_not_tried_again_at_once() {
    let (ways, mark, mut servers) = cluster(1).await;
    ways.to_all(loses_hand_overs);
    servers.push(Server::start(&ways, &mark));
    for number in 0..LOCKS {
        // Some of these leases end while it hands over.
        let request = acquire(new_request(), Duration::from_millis(2_500), false);
        granted(servers[0].store.acquire(&lock(number), request).await.unwrap());
    }
    let (begun, mut waited) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(20) {
        for number in 0..LOCKS {
            let asked = Instant::now();
            // Refused, or carried out when the hand-over has failed.
            let _ = servers[0].store.view(&lock(number)).await;
            waited += asked.elapsed();
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(servers[0].store.leads(), usize::from(PARTITIONS));
    assert!(waited > Duration::from_millis(100), "{waited:?}: it handed nothing over");
    assert!(waited < Duration::from_secs(4), "{waited:?}");
}
