//! Planned changes of the leader: who calls meanwhile notices little.

use crate::crowd::*;
use futures_util::future::join_all;

/// The longest that a call may take while partitions move, in the time of the runtime: far below the second for which a
/// server waits for a leader.
const NOTICED: Duration = Duration::from_millis(200);

/// Asks for all locks through these servers again and again, for so long. Each is answered, within a moment.
async fn all_are_answered(servers: impl AsRef<[&Server]>, during: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < during {
        let each = servers.as_ref().iter().flat_map(|server| (0..LOCKS).map(move |number| (server, lock(number))));
        let calls = each.map(|(server, name)| async move {
            let asked = Instant::now();
            server.store.view(&name).await.unwrap();
            asked.elapsed()
        });
        let longest = join_all(calls).await.into_iter().max().unwrap();
        assert!(longest < NOTICED, "{longest:?} after {:?}", begun.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_server_comes_all_calls_are_answered() {
    let (ways, mark, servers) = cluster(1).await;
    let comes = Server::start(&ways, &mark);
    all_are_answered([&servers[0]], Duration::from_secs(5)).await;
    assert!(comes.store.leads() > 0);
    all_are_answered([&servers[0], &comes], Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn while_two_servers_leave_the_third_answers_all_calls() {
    let (_, _, servers) = cluster(3).await;
    sleep(Duration::from_secs(4)).await;
    settled(&servers).await;
    let [one, two, stays] = <[Server; 3]>::try_from(servers).ok().unwrap();
    let leaves = async { tokio::join!(one.store.leave(), two.store.leave()) };
    tokio::join!(leaves, all_are_answered([&stays], Duration::from_secs(3)));
    assert_eq!(stays.store.leads(), usize::from(PARTITIONS));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leaves_as_it_gets_its_share_hands_it_back() {
    let (ways, mark, servers) = cluster(1).await;
    let comes = Server::start(&ways, &mark);
    until("the first partition of who came", || comes.store.leads() > 0).await;
    tokio::join!(comes.store.leave(), all_are_answered([&servers[0]], Duration::from_secs(3)));
    assert_eq!((servers[0].store.leads(), comes.store.leads()), (usize::from(PARTITIONS), 0));
}

/// A leader that was not relieved keeps its partitions for half a minute, but only from the server that did not do it.
#[tokio::test(start_paused = true)]
async fn a_server_that_dies_as_it_gets_its_share_does_not_keep_the_next_one_from_it() {
    let (ways, mark, servers) = cluster(1).await;
    let dies = Server::start(&ways, &mark);
    ways.to_all(loses_hand_overs);
    // It settles, and hand-overs to it fail.
    sleep(Duration::from_secs(5)).await;
    assert_eq!(dies.store.leads(), 0);
    drop(dies);
    ways.to_all(|_| Fate::Comes);
    let comes = Server::start(&ways, &mark);
    let started = Instant::now();
    until("a share for who came", || comes.store.leads() == usize::from(PARTITIONS) / 2).await;
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    settled(&[servers.into_iter().next().unwrap(), comes]).await;
}
