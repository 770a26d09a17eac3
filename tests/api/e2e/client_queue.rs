//! What the Rust client shows of a lock to others, and of its queue to the holder, against the real server.

use crate::support::{Lock as _, Server, acquire_request, until, within};
use fencepost_client::{AcquireError, Client, DescribeError, LeaseEnd, LockInfo, Mode, Moment, Observing, SetItem};
use fencepost_proto::v1;
use std::{future::IntoFuture, sync::Arc, time::Duration};
use tokio::sync::Notify;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);

fn client(server: &Server) -> Client {
    Client::new(format!("http://{}", server.addr)).unwrap()
}

/// The first state that is as it should be, of this one and the next ones: those between may be missed.
async fn observed(states: &mut Observing, is_right: impl Fn(&LockInfo) -> bool) -> LockInfo {
    within(async {
        loop {
            let state = states.next().await.unwrap();
            if is_right(&state) {
                return state;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_follow_a_leader_and_what_it_says_of_itself() {
    let server = Server::start().await;
    let client = client(&server);
    let mut states = client.observe("a");
    assert!(observed(&mut states, |_| true).await.holders.is_empty(), "nobody has it, and that is a state");
    let seen = Arc::new(Notify::new());
    let until_seen = seen.clone();
    let leading = tokio::spawn(client.acquire("a").holder("host-1").lead(move |term| {
        let until_seen = until_seen.clone();
        async move {
            term.describe().metadata("address", "a:1").await?;
            let number = term.describe().metadata("address", "a:2").holder("host-2").await?;
            until_seen.notified().await;
            Ok::<_, DescribeError>((number, term.token()))
        }
    }));
    let says = |state: &LockInfo, address: &str| {
        state.holders.first().is_some_and(|holder| holder.metadata.get("address").is_some_and(|it| it == address))
    };
    let state = observed(&mut states, |state| says(state, "a:2")).await;
    assert_eq!((state.holders[0].label.as_str(), state.holders[0].description), ("host-2", 2));
    seen.notify_one();
    assert_eq!(within(leading).await.unwrap().unwrap().unwrap(), (2, state.holders[0].token.unwrap()));
    let free = observed(&mut states, |state| state.holders.is_empty()).await;
    assert_eq!((free.newest_token, free.previous_end), (state.holders[0].token, Some(LeaseEnd::Released)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_goes_on_with_its_number_after_a_hand_over() {
    let server = Server::start().await;
    let client = client(&server);
    let lock = client.acquire("a").ttl(TTL).owner("job 7").await.unwrap();
    assert_eq!(within(lock.describe().metadata("done", "1").into_future()).await.unwrap(), 1);
    let lock = client.keep(lock.into_lease(), Moment::now(), Duration::ZERO);
    for number in [2, 3] {
        let described = lock.describe().metadata("done", number.to_string());
        assert_eq!(within(described.into_future()).await.unwrap(), number);
    }
    let state = observed(&mut client.observe("a"), |_| true).await;
    let holder = &state.holders[0];
    assert_eq!((holder.description, holder.metadata["done"].as_str(), holder.owner.as_str()), (3, "3", "job 7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_is_told_to_its_holder_and_to_those_who_ask_and_is_bounded() {
    let server = Server::start().await;
    let client = client(&server);
    let lock = client.acquire("a").ttl(TTL).tell_when_wanted().await.unwrap();
    let wanted = tokio::spawn(lock.wanted());
    assert!(!lock.is_wanted());
    let reader = tokio::spawn(client.acquire("a").shared().owner("job 7").holder("host-1").wait(LONG).into_future());
    assert_eq!(within(wanted).await.unwrap(), Some(Mode::Shared));
    let writer = tokio::spawn(client.acquire("a").holder("host-2").wait(LONG).into_future());
    until(|| async { server.client().lock_info("a").await.waiters == 2 }).await;
    let waiters = within(client.waiters("a")).await.unwrap();
    let shown: Vec<_> = waiters.iter().map(|it| (it.label.as_str(), it.owner.as_str(), it.mode)).collect();
    assert_eq!(shown, [("host-1", "job 7", Mode::Shared), ("host-2", "", Mode::Exclusive)]);
    let refused = within(client.acquire("a").max_waiters(2).wait(LONG).into_future()).await;
    assert!(matches!(refused, Err(AcquireError::Contended { waiters: 2, .. })), "{refused:?}");
    within(lock.release()).await.unwrap();
    within(within(reader).await.unwrap().unwrap().release()).await.unwrap();
    within(within(writer).await.unwrap().unwrap().release()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_share_the_whole_work_in_different_parts() {
    let server = Server::start().await;
    let client = client(&server);
    let part = |name: &'static str| client.acquire_all([SetItem::exclusive(name), SetItem::shared("t")]);
    let (one, two) =
        (within(part("t/1").into_future()).await.unwrap(), within(part("t/2").into_future()).await.unwrap());
    assert_eq!(one.get("t").map(|lock| lock.mode()), Some(Mode::Shared));
    let lock = server.client().lock_info("t").await;
    assert_eq!((lock.holder_count, lock.holders[0].mode()), (2, v1::LockMode::Shared));
    let whole = server.client().acquire(acquire_request("t", TTL)).await.unwrap().into_inner();
    assert_eq!(whole.outcome(), v1::acquire_response::Outcome::Contended);
    within(one.release()).await.unwrap();
    within(two.release()).await.unwrap();
}
