//! Leases while partitions move all the time, as servers come and leave, and what they tell each other is late or lost.

use crate::crowd::*;
use futures_util::future::join_all;

/// Of leases whose renewals are not written.
const SHORT: Duration = Duration::from_secs(4);
/// How long partitions move, in the time of the runtime.
const MOVES_FOR: Duration = Duration::from_secs(60);

fn below(end: u64) -> u64 {
    Uuid::new_v4().as_u64_pair().1 % end
}

fn one_of(servers: &Servers) -> usize {
    usize::try_from(below(servers.len() as u64)).unwrap()
}

/// Around the second after which a leader that handed over goes on.
fn delays_hand_overs_and_loses_replies(frame: &Frame) -> Fate {
    match frame {
        Frame::HandOver { .. } if below(4) > 0 => Fate::Late(Duration::from_millis(below(1_500))),
        Frame::Reply { .. } if below(20) == 0 => Fate::Lost,
        _ => Fate::Comes,
    }
}

/// A lease, and until when its holder counts on it.
struct Held {
    name: LockName,
    grant: Grant,
    until: Instant,
}

impl Held {
    /// Takes a lock, with the next attempt after an answer that did not come, as clients do.
    async fn take(server: &Server, name: LockName) -> Self {
        let request = new_request();
        for attempt in 1.. {
            let mut asked = acquire(request, SHORT, false);
            asked.call.attempt = attempt;
            let sent = Instant::now();
            if let Ok(outcome) = server.store.acquire(&name, asked).await {
                let grant = granted(outcome);
                return Self { name, until: sent + grant.left, grant };
            }
            sleep(Duration::from_millis(20)).await;
        }
        unreachable!("it goes on")
    }

    /// Renews through a server. It must not learn of an end before the time that it counts on is over.
    async fn renew(&mut self, server: &Server) {
        let sent = Instant::now();
        match server.store.renew(&self.name, self.grant.lease_id).await {
            Ok(RenewOutcome::Renewed(renewed)) => self.until = self.until.max(sent + renewed.left),
            Ok(lost) => {
                let left = self.until.saturating_duration_since(Instant::now());
                assert_eq!(left, Duration::ZERO, "{lost:?} too early");
                *self = Self::take(server, self.name.clone()).await;
            }
            // Not done, or not known.
            Err(_) => {}
        }
    }
}

/// A server comes, or one leaves.
fn change(servers: &mut Servers, (ways, mark): (&Arc<Ways>, &Mark)) {
    if servers.len() < 2 || servers.len() < 4 && below(2) == 0 {
        servers.push(Server::start(ways, mark));
    } else {
        let leaving = servers.swap_remove(one_of(servers));
        tokio::spawn(async move { leaving.store.leave().await });
    }
}

async fn no_lease_ends_early(nodes: usize) {
    let (ways, mark, mut servers) = cluster_of(nodes, 2).await;
    ways.to_all(delays_hand_overs_and_loses_replies);
    ways.delays_first_batches.store(below(2) == 0, Ordering::Relaxed);
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push(Held::take(&servers[0], lock(number)).await);
    }
    let begun = Instant::now();
    let mut next_change = begun;
    while begun.elapsed() < MOVES_FOR {
        if next_change <= Instant::now() {
            change(&mut servers, (&ways, &mark));
            next_change = Instant::now() + Duration::from_millis(1_500 + below(3_000));
        }
        let due = held
            .iter_mut()
            .filter(|held| below(12) == 0 || held.until.saturating_duration_since(Instant::now()) < SHORT / 4);
        join_all(due.map(|held| held.renew(&servers[one_of(&servers)]))).await;
        sleep(Duration::from_millis(30)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_lease_ends_early_on_three_nodes() {
    no_lease_ends_early(3).await;
}

#[tokio::test(start_paused = true)]
async fn no_lease_ends_early_on_one_node() {
    no_lease_ends_early(1).await;
}
