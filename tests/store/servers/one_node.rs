//! One node, which loses its memory: what some server has in memory is not lost, and tokens rise in any case.

use crate::crowd::*;

/// Who begins the next membership is settled within this time, where some server has the memory: all have reported
/// within a second, and beats are 0.3 s apart.
const RECALLED_WITHIN: Duration = Duration::from_secs(3);
/// The same, where nobody has it.
const GONE_ON_WITHIN: Duration = Duration::from_secs(6);

/// Servers on one node, of which the first leads most partitions, and locks that are held through the last one.
async fn with_held_locks(servers: usize) -> (Arc<Ways>, Mark, Servers, Vec<(LockName, Grant)>) {
    let (ways, mark, mut servers) = cluster_of(1, servers).await;
    level(&servers).await;
    servers.sort_by_key(|server| Reverse(server.store.leads()));
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push((lock(number), take(servers.last().unwrap(), &lock(number)).await.1));
    }
    (ways, mark, servers, held)
}

/// All locks are held as before, and who comes next gets a higher token.
async fn all_are_held(server: &Server, held: &[(LockName, Grant)]) {
    for (name, grant) in held {
        let view = persist(async || server.store.view(name).await).await;
        assert_eq!(view.current.map(|lease| lease.token), Some(grant.token), "{name}");
    }
}

/// What a lock is granted with by the first server that grants it, whoever held it before.
async fn granted_anew(server: &Server, name: &LockName) -> Grant {
    let begun = Instant::now();
    loop {
        let request = acquire(new_request(), TTL, false);
        if let AcquireOutcome::Granted(grant) =
            persist(async || server.store.acquire(name, request.clone()).await).await
        {
            return grant;
        }
        assert!(begun.elapsed() < 2 * TTL, "{name} stays held");
        sleep(Duration::from_secs(1)).await;
    }
}

async fn recalled_after(lose: impl FnOnce(&Ways)) {
    let (ways, _, servers, held) = with_held_locks(3).await;
    let mut waiting = Vec::new();
    for (name, _) in &held {
        waiting.push(waits(&servers[0], name));
        queued(&servers[1], name, 1).await;
    }
    let lost = Instant::now();
    lose(&ways);
    all_are_held(&servers[1], &held).await;
    let took = lost.elapsed();
    assert!(took < RECALLED_WITHIN, "{took:?}");
    for (waiter, held) in waiting.into_iter().zip(&held) {
        release(&servers[1], held).await;
        assert!(served(waiter).await.token > held.1.token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_emptied_gets_all_back() {
    recalled_after(|ways| ways.twins.starts_with(0, Node::unmarked())).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_restarted_with_what_it_kept_gets_what_is_newer() {
    recalled_after(|ways| ways.twins.starts_with(0, ways.twins.backup(0))).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_restored_from_a_backup_gets_what_is_newer() {
    let (ways, _, servers, mut held) = with_held_locks(2).await;
    let backup = ways.twins.backup(0);
    for held in &mut held {
        release(&servers[0], held).await;
        held.1 = take(&servers[0], &held.0).await.1;
    }
    ways.twins.starts_with(0, backup);
    all_are_held(&servers[1], &held).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_lost_twice_gets_all_back_twice() {
    let (ways, _, servers, held) = with_held_locks(2).await;
    ways.twins.starts_with(0, Node::unmarked());
    sleep(Duration::from_millis(1_400)).await;
    // By now it is being brought up to date, or was a moment ago.
    ways.twins.starts_with(0, Node::unmarked());
    all_are_held(&servers[1], &held).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_memory_what_the_node_kept_goes_on_and_tokens_rise() {
    for keeps in [true, false] {
        let (ways, _, mut servers, held) = with_held_locks(3).await;
        let kept = if keeps { ways.twins.backup(0) } else { Node::unmarked() };
        let dead = servers.remove(0);
        assert!(dead.store.leads() > 0, "else its death shows nothing");
        drop(dead);
        ways.twins.starts_with(0, kept);
        let lost = Instant::now();
        let mut forgotten = 0;
        for (name, grant) in &held {
            let view = persist(async || servers[0].store.view(name).await).await;
            match view.current {
                Some(lease) => assert_eq!(lease.token, grant.token, "{name}"),
                None => forgotten += 1,
            }
        }
        let took = lost.elapsed();
        assert!(took < GONE_ON_WITHIN, "{took:?}");
        assert_eq!(forgotten == 0, keeps, "{forgotten}");
        for (name, grant) in &held {
            assert!(granted_anew(&servers[0], name).await.token > grant.token, "{name}");
        }
    }
}

/// Tokens of a store that nobody remembers, with the clocks of its server and of its node so many seconds ahead.
async fn tokens_of_a_forgotten_store(ways: &Arc<Ways>, mark: &Mark, [own, node]: [i64; 2]) -> Vec<u64> {
    ways.twins.sets_clock(0, node);
    ways.twins.starts_with(0, Node::unmarked());
    let server = Server::with_clock(ways, mark, Arc::new(RuntimeClock::ahead(own)));
    let mut tokens = Vec::new();
    for number in 0..LOCKS {
        tokens.push(granted_anew(&server, &lock(number)).await.token.get());
    }
    tokens
}

#[tokio::test(start_paused = true)]
async fn without_a_memory_tokens_rise_if_one_clock_is_right_each_time() {
    let right_in_one = [[0, 0], [0, 20], [20, 0], [0, -20], [-20, 0]];
    for before in right_in_one {
        for after in right_in_one {
            let (ways, mark, servers) = cluster_of(1, 1).await;
            drop(servers);
            let first = tokens_of_a_forgotten_store(&ways, &mark, before).await;
            let second = tokens_of_a_forgotten_store(&ways, &mark, after).await;
            for (first, second) in first.into_iter().zip(second) {
                assert!(second > first, "{before:?}, {after:?}: {second} after {first}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_has_in_memory_comes_back_at_once_whatever_clocks_show() {
    let (ways, _, servers, held) = with_held_locks(2).await;
    ways.twins.sets_clock(0, 50);
    ways.twins.starts_with(0, Node::unmarked());
    let lost = Instant::now();
    all_are_held(&servers[1], &held).await;
    let took = lost.elapsed();
    assert!(took < RECALLED_WITHIN, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn tokens_go_on_above_all_that_a_living_server_has_drawn() {
    let (ways, mark, mut servers) = cluster_of(1, 1).await;
    let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::ahead(0));
    servers[0] = Server::with_clock(&ways, &mark, Arc::clone(&clock));
    settled(&servers).await;
    let mut held = Vec::new();
    for number in 0..LOCKS {
        let mut request = acquire(new_request(), TTL, false);
        request.terms.min_token = clock.now().after(Duration::from_secs(20 * 3_600)).as_micros();
        let acquired = persist(async || servers[0].store.acquire(&lock(number), request.clone()).await).await;
        held.push((lock(number), granted(acquired)));
    }
    servers.push(Server::start(&ways, &mark));
    until("a share for who came", || servers[1].store.leads() > 0).await;
    // The other has seen that, and has these partitions in memory no more.
    sleep(Duration::from_secs(1)).await;
    drop(servers.remove(1));
    ways.twins.starts_with(0, Node::unmarked());
    for (name, grant) in &held {
        assert!(granted_anew(&servers[0], name).await.token > grant.token, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_through_the_loss_finds_itself_outlived() {
    let (ways, _, mut servers, held) = with_held_locks(2).await;
    let mut slept = servers.remove(0);
    assert!(slept.store.leads() > 0, "else it slept through nothing");
    let sleeps = tokio::spawn(async move {
        slept.pause(Duration::from_secs(12)).await;
        slept
    });
    sleep(Duration::from_secs(2)).await;
    ways.twins.starts_with(0, Node::unmarked());
    let mut anew = Vec::new();
    for (name, before) in &held {
        let view = persist(async || servers[0].store.view(name).await).await;
        let is_forgotten = view.current.is_none();
        let grant = if is_forgotten { granted_anew(&servers[0], name).await } else { *before };
        assert!(!is_forgotten || grant.token > before.token);
        anew.push((name.clone(), grant));
    }
    servers.push(sleeps.await.unwrap());
    sleep(Duration::from_secs(2)).await;
    settled(&servers).await;
    for server in &servers {
        all_are_held(server, &anew).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_through_the_loss_alone_has_all() {
    let (ways, _, mut servers, held) = with_held_locks(1).await;
    let away = ways.twins.backup(0);
    ways.twins.stops(0);
    servers[0].pause(Duration::from_secs(10)).await;
    ways.twins.starts_with(0, Node { servers: away.servers, ..Node::unmarked() });
    all_are_held(&servers[0], &held).await;
}

/// The way of one server to the node: a connection, which is made anew only when that is asked for.
struct Connection {
    ways: Arc<Ways>,
    is_open: AtomicBool,
}

impl NodeClient for Connection {
    async fn send(&self, node: usize, requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        if !self.is_open.load(Ordering::Relaxed) {
            return Err(Lost("it was closed".to_owned()));
        }
        self.ways.send(node, requests).await
    }

    async fn up(&self, node: usize) {
        self.ways.up(node).await;
        self.is_open.store(true, Ordering::Relaxed);
    }

    fn wall_clock(&self, node: usize) -> impl Future<Output = Option<u64>> + Send {
        self.ways.wall_clock(node)
    }

    fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> impl Future<Output = Result<bool, Lost>> + Send {
        self.ways.publish(node, to, parcel)
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        self.ways.listen(node, me)
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_leads_nothing_connects_again() {
    let (ways, mark, servers) = cluster_of(1, 1).await;
    let connection = Arc::new(Connection { ways: Arc::clone(&ways), is_open: AtomicBool::new(false) });
    let (clock, notices) = (Arc::new(RuntimeClock::start()), Arc::new(Hub::new()));
    let store = Arc::new(QuorumStore::new(Arc::clone(&connection), mark, clock, &Limits::default(), notices));
    let runs = Arc::clone(&store);
    let runs = tokio::spawn(async move { runs.run().await });
    // It has not lived for long enough to be handed a share.
    until("the server knows who leads", || store.is_ready()).await;
    assert_eq!(store.leads(), 0);
    connection.is_open.store(false, Ordering::Relaxed);
    until("its connection is made anew", || connection.is_open.load(Ordering::Relaxed)).await;
    assert_eq!(store.leads(), 0, "else it had requests of its own");
    runs.abort();
    drop(servers);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_has_handed_its_memory_over() {
    let (ways, _, mut servers, held) = with_held_locks(2).await;
    let leaving = servers.remove(0);
    ways.delays_first_batches.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    leaving.store.leave().await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let node = ways.twins.backup(0);
    let writers = node.partitions.values().map(|it| it.header.as_ref().unwrap().accepted.ballot.server);
    assert_eq!(writers.collect::<BTreeSet<_>>().len(), 1, "the successor has written to each partition");
    drop(leaving);
    ways.twins.starts_with(0, Node::unmarked());
    all_are_held(&servers[0], &held).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_start_goes_on_from_nothing() {
    let (ways, mark) = empty(1);
    let begun = Instant::now();
    let servers = vec![Server::start(&ways, &mark), Server::start(&ways, &mark)];
    settled(&servers).await;
    let took = begun.elapsed();
    assert!(took < GONE_ON_WITHIN, "{took:?}");
    let (_, grant) = take(&servers[0], &lock(0)).await;
    let view = servers[1].store.view(&lock(0)).await.unwrap();
    assert_eq!(view.current.unwrap().token, grant.token);
}
