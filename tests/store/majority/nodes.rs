//! Nodes that die, forget, or are damaged, and servers that stop and take over.

use crate::cluster::*;

#[tokio::test]
async fn a_server_that_takes_over_finds_leases_ended_requests_and_tokens() {
    for nodes in [1, 3] {
        let cluster = Cluster::of(nodes).await;
        let first = cluster.server().await;
        let mut held = first.acquire_all().await;
        let (name, request, ended) = held.pop().unwrap();
        assert_eq!(first.store.release(&name, ended.lease_id).await.unwrap(), ReleaseOutcome::Released);
        drop(first);
        let second = cluster.server().await;
        assert_held(&second, &held).await;
        let repeated = second.store.acquire(&name, request).await.unwrap();
        assert_eq!(repeated, AcquireOutcome::Ended, "a late repeat does not lock again");
        let released = second.store.release(&name, ended.lease_id).await.unwrap();
        let gone = Gone { fate: Fate::Ended(LeaseEnd::Released), successor: None };
        assert_eq!(released, ReleaseOutcome::Gone(gone));
        let next = second.acquire(&name, &acquire(new_request(), TTL, false)).await;
        assert!(next.token > ended.token);
    }
}

#[tokio::test]
async fn an_idle_server_runs_at_most_three_scripts_a_second_on_each_node() {
    for nodes in [1, 3] {
        let cluster = Cluster::of(nodes).await;
        let _server = cluster.server().await;
        let scripts = || cluster.redis.iter().map(|redis| redis.calls("evalsha")).collect::<Vec<_>>();
        let (before, since) = (scripts(), Instant::now());
        sleep(Duration::from_secs(4)).await;
        let (after, elapsed) = (scripts(), since.elapsed().as_secs_f64());
        let counts: Vec<_> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        // A heartbeat at the very beginning, and what is left to be written of the beginning of the leads.
        let most = 3.0 * elapsed + 2.0;
        assert!(counts.iter().all(|count| *count as f64 <= most), "{counts:?} in {elapsed} s");
        assert!(counts.iter().all(|count| *count as f64 >= elapsed), "others would suspect it: {counts:?}");
    }
}

#[tokio::test]
async fn a_server_that_was_stopped_answers_nothing_that_its_successor_did_not_see() {
    for nodes in [1, 3] {
        let cluster = Cluster::of(nodes).await;
        let mut first = cluster.server().await;
        let held = first.acquire_all().await;
        first.pause();
        let second = cluster.server().await;
        let (name, _, grant) = &held[0];
        assert_eq!(second.store.release(name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
        let next = second.acquire(name, &acquire(new_request(), TTL, false)).await;
        // The first server still thinks that it leads, and that the lease is held.
        let (renewing, viewing) = (first.store.renew(name, grant.lease_id), first.store.view(name));
        let asked = async { tokio::join!(renewing, viewing) };
        // It runs on while it is asked.
        let (renewed, viewed) = tokio::select! {
            biased;
            answers = asked => answers,
            () = first.store.run() => unreachable!("it never ends"),
        };
        assert!(matches!(renewed, Err(StoreError::OutcomeUnknown(_))), "{renewed:?}");
        assert!(matches!(viewed, Err(StoreError::OutcomeUnknown(_))), "{viewed:?}");
        drop(first);
        second.until_it_leads().await;
        let RenewOutcome::Renewed(renewed) = second.store.renew(name, next.lease_id).await.unwrap() else {
            panic!("the successor's lease is lost");
        };
        assert_eq!(renewed.token, next.token);
    }
}

#[tokio::test]
async fn a_node_that_forgets_is_admitted_with_all_that_the_others_have() {
    let mut cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    for node in 0..3 {
        cluster.redis[node].kill();
        let (name, request) = (lock(LOCKS + u32::try_from(node).unwrap()), acquire(new_request(), TTL, false));
        let alone = server.acquire(&name, &request).await;
        assert_held(&server, &held[..5]).await;
        cluster.redis[node].restart(false);
        let admitted = async {
            while !cluster.has_headers(node) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, admitted).await.expect("the node is admitted");
        assert_held(&server, &[(name, request, alone)]).await;
    }
    // By now no node has the memory that it began with.
    drop(server);
    let successor = cluster.server().await;
    assert_held(&successor, &held).await;
}

#[tokio::test]
async fn without_a_majority_there_is_no_answer_and_nothing_is_granted() {
    let mut cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    cluster.redis[0].kill();
    cluster.redis[1].kill();
    let free = lock(LOCKS);
    let refused = server.store.acquire(&free, acquire(new_request(), TTL, false)).await;
    assert!(matches!(refused, Err(StoreError::OutcomeUnknown(_))), "{refused:?}");
    let refused = server.store.view(&held[0].0).await;
    assert!(refused.is_err(), "what one node of three says may be old: {refused:?}");
    // Two of three have forgotten: what is left is no majority, and may lack what the two had.
    cluster.redis[0].restart(false);
    cluster.redis[1].restart(false);
    let mut successor = cluster.idle_server();
    successor.connect();
    successor.serve();
    sleep(Duration::from_secs(3)).await;
    for store in [&server.store, &successor.store] {
        let refused = store.acquire(&free, acquire(new_request(), TTL, false)).await;
        let why = refused.unwrap_err().to_string();
        let names = format!("{} and {} lost their memory", cluster.mark.members[0], cluster.mark.members[1]);
        assert!(why.contains(&names) && why.contains("fencepost quorum rebuild"), "{why}");
    }
}

#[tokio::test]
async fn a_node_whose_data_is_damaged_holds_up_nobody_and_is_used_again_once_it_is_mended() {
    let cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    // Of another type, as if somebody had used the key for something else.
    let header = "{fp}:q0:h";
    cluster.redis[2].command(&["DEL", header]);
    cluster.redis[2].command(&["LPUSH", header, "x"]);
    assert_held(&server, &held).await;
    cluster.redis[2].command(&["DEL", header]);
    let admitted = async {
        while !cluster.has_headers(2) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, admitted).await.expect("the node is admitted to the partition that an operator emptied");
    assert_held(&server, &held).await;
}

#[tokio::test]
async fn nodes_that_are_demoted_and_promoted_in_place_repeat_no_token_and_forget_no_lease() {
    let cluster = Cluster::of(3).await;
    let server = cluster.server().await;
    let held = server.acquire_all().await;
    let (name, mut last) = (lock(LOCKS), 0);
    for round in 0..6 {
        let redis = &cluster.redis[round % 3];
        let id = || {
            let Answer::Text(info) = redis.command(&["INFO", "replication"]) else { panic!("no text") };
            info.lines().find_map(|line| line.strip_prefix("master_replid:").map(str::to_owned)).unwrap()
        };
        let before = id();
        redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
        redis.command(&["REPLICAOF", "NO", "ONE"]);
        assert_ne!(id(), before, "it is another incarnation");
        for _ in 0..3 {
            let grant = server.acquire(&name, &acquire(new_request(), TTL, false)).await;
            assert!(grant.token.get() > last, "round {round}");
            last = grant.token.get();
            assert_eq!(server.store.release(&name, grant.lease_id).await.unwrap(), ReleaseOutcome::Released);
        }
        // It votes again, or the next one would be the second of three that forgot.
        let votes_in = |partition: u16| {
            let of = redis.command(&["GETRANGE", &format!("{{fp}}:q{partition}:h"), "40", "79"]);
            matches!(of, Answer::Text(of) if of == id())
        };
        let votes = async {
            while !(0..PARTITIONS).all(votes_in) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, votes).await.expect("the node is admitted");
    }
    assert_held(&server, &held).await;
}
