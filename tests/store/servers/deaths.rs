//! A server dies, or stands still, with waiters of locks that other servers lead.

use crate::crowd::*;

/// A server that has stopped beating is taken for dead after 1.2 s. That is seen with the next beat, 0.3 s later at
/// most, and so may its last beat have been; then the locks are looked at within 0.1 s.
const DEATH_IS_KNOWN_WITHIN: Duration = Duration::from_millis(2_000);
/// Each server looks every 0.3 s who beats.
const SEEN_TO_BEAT_WITHIN: Duration = Duration::from_millis(400);
/// Waiters of the server before the one at another server, for each lock: more than one claim window for all of them.
const DEAD_WAITERS: usize = 3;

/// Two servers that lead all partitions, a third one that leads nothing yet, and locks that are held. No partition
/// moves before the third one has settled: to a leader that came while a server stood still, its waiters would be new.
async fn with_a_newcomer() -> (Servers, Server, Vec<(LockName, Grant)>) {
    let (ways, mark, servers) = cluster(2).await;
    level(&servers).await;
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push((lock(number), take(&servers[0], &lock(number)).await.1));
    }
    let newcomer = Server::start(&ways, &mark);
    until("the newcomer knows who leads", || newcomer.store.is_ready()).await;
    (servers, newcomer, held)
}

/// A waiter through this server, as the `count`th one of the lock.
async fn waits_as_number(
    count: usize,
    server: &Server,
    name: &LockName,
) -> JoinHandle<Result<AcquireAnswer, LocksError>> {
    let waiter = waits(server, name);
    queued(server, name, count).await;
    waiter
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_reaches_a_live_waiter_as_soon_as_the_server_of_those_before_it_is_dead() {
    let (servers, dying, held) = with_a_newcomer().await;
    let mut waiting = Vec::new();
    for (number, (name, _)) in held.iter().enumerate() {
        for dead in 1..=DEAD_WAITERS {
            waits_as_number(dead, &dying, name).await;
        }
        waiting.push(waits_as_number(DEAD_WAITERS + 1, &servers[number % 2], name).await);
    }
    assert_eq!(dying.store.leads(), 0, "else a change of the leader has a part in it");
    let died = Instant::now();
    drop(dying);
    for held in &held {
        release(&servers[0], held).await;
    }
    for (waiter, held) in waiting.into_iter().zip(&held) {
        assert!(served(waiter).await.token > held.1.token);
    }
    let took = died.elapsed();
    assert!(took < DEATH_IS_KNOWN_WITHIN, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_is_taken_for_dead_and_lives_keeps_its_places_and_takes_nothing_from_others() {
    let (servers, mut still, held) = with_a_newcomer().await;
    let mut waiting = Vec::new();
    for (name, _) in &held {
        let first = waits_as_number(1, &still, name).await;
        let next = waits_as_number(2, &servers[0], name).await;
        waiting.push((first, next, waits_as_number(3, &servers[1], name).await));
    }
    assert_eq!(still.store.leads(), 0);
    let stands_still = async {
        still.pause(DEATH_IS_KNOWN_WITHIN).await;
        still
    };
    let goes_on = async {
        for held in &held {
            // It is offered to the first waiter, whose server does not hear of it before it is taken for dead.
            release(&servers[0], held).await;
        }
    };
    let (still, ()) = futures_util::future::join(stands_still, goes_on).await;
    // What it hears now is too late. Others see it beat again.
    sleep(SEEN_TO_BEAT_WITHIN).await;
    for ((name, held), (first, next, last)) in held.into_iter().zip(waiting) {
        let overtook = served(next).await;
        assert!(overtook.token > held.token);
        assert!(!first.is_finished() && !last.is_finished(), "{name} has two holders");
        release(&servers[0], &(name.clone(), overtook)).await;
        let kept = served(first).await;
        assert!(kept.token > overtook.token && !last.is_finished());
        release(&still, &(name, kept)).await;
        assert!(served(last).await.token > kept.token);
    }
}
