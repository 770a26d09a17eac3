//! Parcels that are lost on their way.

use crate::crowd::*;

#[tokio::test(start_paused = true)]
async fn lost_parcels_delay_waiters_and_lose_none() {
    let (ways, _, servers) = cluster(3).await;
    ways.loses_each.store(7, Ordering::Relaxed);
    for number in 0..6 {
        let name = lock(number);
        let mut grant = take_with_retries(Arc::clone(&servers[0].locks), name.clone()).await;
        let waiter =
            |waiter: usize| tokio::spawn(take_with_retries(Arc::clone(&servers[waiter % 3].locks), name.clone()));
        let mut waiters: Vec<_> = (0..6).map(waiter).collect();
        while !waiters.is_empty() {
            let released = persist(async || servers[1].store.release(&name, grant.lease_id).await).await;
            assert!(matches!(released, ReleaseOutcome::Released | ReleaseOutcome::Gone(_)));
            let served = timeout(PATIENCE, select_all(waiters)).await;
            let (next, _, rest) = served.expect("somebody is served");
            let next = next.unwrap();
            assert!(next.token > grant.token);
            (grant, waiters) = (next, rest);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn servers_find_another_way_where_a_node_takes_parcels_and_does_not_pass_them_on() {
    let (ways, servers, held) = with_held_locks().await;
    ways.first_is_deaf.store(true, Ordering::Relaxed);
    for server in &servers {
        for (name, grant) in &held {
            let view = persist(async || server.store.view(name).await).await;
            assert_eq!(view.current.unwrap().token, grant.token);
        }
    }
}
