//! The driver with scripted partitions and a scripted node, without a store and without Redis.

use super::*;
use crate::{
    node::Pushes,
    store::quorum::{
        nodes::client::Answers,
        paxos::{ballot::Ballot, node::ClusterId},
    },
    sync::Mutex,
};
use futures_util::FutureExt as _;
use pace::UNDER_WAY_MAX;
use std::{
    collections::VecDeque,
    pin::{Pin, pin},
};
use tokio::sync::Semaphore;

/// A node that answers what it was asked when it may.
struct Scripted {
    asked: Mutex<Vec<Vec<NodeRequest>>>,
    answer: fn(&NodeRequest) -> Result<NodeAnswer, String>,
    may_answer: Semaphore,
}

impl NodeClient for Scripted {
    async fn send(&self, _: usize, requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        let answers = requests.iter().map(self.answer).collect();
        self.asked.lock().push(requests);
        self.may_answer.acquire().await.map_err(|closed| Lost(closed.to_string()))?.forget();
        Ok(answers)
    }

    async fn up(&self, _: usize) {}

    async fn wall_clock(&self, _: usize) -> Option<u64> {
        None
    }

    async fn publish(&self, _: usize, _: ServerId, _: Vec<u8>) -> Result<bool, Lost> {
        Ok(false)
    }

    fn listen(&self, _: usize, _: ServerId) -> Pushes {
        panic!("the driver takes no parcels")
    }
}

/// Requests by partition, and what became of them.
#[derive(Default)]
struct Queues {
    requests: Mutex<Vec<VecDeque<(u64, Request)>>>,
    /// Those that go with a heartbeat.
    idle_batches: Mutex<Vec<(usize, u64)>>,
    answered: Mutex<Vec<(usize, u64, Answer)>>,
    broke: Mutex<Vec<usize>>,
    reconnected: Mutex<usize>,
}

impl Partitions for Queues {
    type Tag = u64;

    fn reconnected(&self, _: usize) {
        *self.reconnected.lock() += 1;
    }

    fn requests(&self, _: usize, first: usize, mut take: impl FnMut(usize, u64, Request) -> bool) -> usize {
        let mut requests = self.requests.lock();
        let partitions = requests.len();
        for at in (0..partitions).map(|step| (first + step) % partitions) {
            while let Some((tag, request)) = requests[at].pop_front() {
                if !take(at, tag, request) {
                    return at + 1;
                }
            }
        }
        first
    }

    fn idle_batches(&self, _: usize, mut take: impl FnMut(usize, u64, Request)) {
        for (partition, tag) in self.idle_batches.lock().drain(..) {
            take(partition, tag, Request::Promise(Ballot::default()));
        }
    }

    fn answered(&self, _: usize, partition: usize, tag: u64, answer: Answer) {
        self.answered.lock().push((partition, tag, answer));
    }

    fn broke(&self, _: usize, partition: usize) -> bool {
        self.broke.lock().push(partition);
        true
    }
}

fn driver(answer: fn(&NodeRequest) -> Result<NodeAnswer, String>, answers: usize) -> Driver<Scripted> {
    let mark = Mark { cluster: ClusterId(7), list: 1, partitions: 2, members: ["a".into()].into(), rebuild: None };
    Driver::new(Scripted { asked: Mutex::default(), answer, may_answer: Semaphore::new(answers) }, mark)
}

fn queues(each: [usize; 2]) -> Queues {
    let requests = each.map(|count| (0..).take(count).map(|tag| (tag, Request::Promise(Ballot::default()))).collect());
    Queues { requests: Mutex::new(requests.into()), ..Queues::default() }
}

fn done(_: &NodeRequest) -> Result<NodeAnswer, String> {
    Ok(NodeAnswer::OfPartition(Answer::Done))
}

/// Lets the driver do all that it can do without another answer.
async fn run(driver: &Driver<Scripted>, queues: &Queues) {
    let mut serving = pin!(driver.serve(0, queues));
    for _ in 0..100 {
        assert!((&mut serving).now_or_never().is_none(), "it never ends");
        driver.wake_all();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn each_answer_comes_back_to_its_partition_with_its_tag() {
    let (driver, queues) = (driver(done, 100), queues([2, 1]));
    run(&driver, &queues).await;
    assert_eq!(*queues.answered.lock(), [(0, 0, Answer::Done), (0, 1, Answer::Done), (1, 0, Answer::Done)]);
    let asked = driver.client.asked.lock();
    assert_eq!(asked.len(), 1, "what is there at one time goes in one send");
    assert!(matches!(asked[0][2], NodeRequest::OfPartition { cluster: ClusterId(7), list: 1, partition: 1, .. }));
}

#[tokio::test]
async fn a_full_send_is_followed_by_the_partition_after() {
    let (driver, queues) = (driver(done, 1), queues([3 * REQUESTS_PER_SEND_MAX, 5]));
    run(&driver, &queues).await;
    let asked = driver.client.asked.lock();
    let partitions = |send: &[NodeRequest]| {
        let each = send
            .iter()
            .map(|request| if let NodeRequest::OfPartition { partition, .. } = request { *partition } else { 9 });
        each.collect::<Vec<_>>()
    };
    assert_eq!(partitions(&asked[0]), [0; REQUESTS_PER_SEND_MAX]);
    assert_eq!(partitions(&asked[1])[..6], [1, 1, 1, 1, 1, 0]);
}

#[tokio::test]
async fn so_many_sends_are_under_way_and_no_more() {
    let (driver, queues) = (driver(done, 0), queues([10 * REQUESTS_PER_SEND_MAX, 0]));
    run(&driver, &queues).await;
    assert_eq!(driver.client.asked.lock().len(), UNDER_WAY_MAX);
    assert!(queues.answered.lock().is_empty());
}

/// Submits one command, which needs one request, and lets the driver do all that it can. Returns how many requests each
/// send so far had.
async fn submit(
    driver: &Driver<Scripted>,
    queues: &Queues,
    mut serving: Pin<&mut impl Future<Output = ()>>,
) -> Vec<usize> {
    queues.requests.lock()[0].push_back((0, Request::Promise(Ballot::default())));
    driver.submitted(1);
    for _ in 0..10 {
        assert!(serving.as_mut().now_or_never().is_none(), "it never ends");
        tokio::task::yield_now().await;
    }
    driver.client.asked.lock().iter().map(Vec::len).collect()
}

#[tokio::test]
async fn commands_wait_until_they_are_half_as_many_as_those_under_way_or_one_of_these_is_answered() {
    let (driver, queues) = (driver(done, 0), queues([0, 0]));
    let mut serving = pin!(driver.serve(0, &queues));
    assert_eq!(submit(&driver, &queues, serving.as_mut()).await, [1], "a command that comes alone waits for none");
    assert_eq!(submit(&driver, &queues, serving.as_mut()).await, [1, 1], "one for one");
    assert_eq!(submit(&driver, &queues, serving.as_mut()).await, [1, 1, 1], "one for two");
    assert_eq!(submit(&driver, &queues, serving.as_mut()).await, [1, 1, 1], "one for three");
    driver.client.may_answer.add_permits(1);
    assert_eq!(submit(&driver, &queues, serving.as_mut()).await, [1, 1, 1, 2], "two for two");
}

#[tokio::test]
async fn commands_that_write_nothing_hold_up_none() {
    let (driver, queues) = (driver(done, 0), queues([0, 0]));
    let mut serving = pin!(driver.serve(0, &queues));
    driver.submitted(100);
    assert!(serving.as_mut().now_or_never().is_none());
    assert_eq!(submit(&driver, &queues, serving.as_mut()).await, [1]);
    assert_eq!(submit(&driver, &queues, serving.as_mut()).await, [1, 1], "one for one");
}

#[tokio::test]
async fn a_request_that_cannot_be_carried_out_ends_no_other() {
    let answer = |request: &NodeRequest| match request {
        NodeRequest::OfPartition { partition: 0, .. } => Err("damaged".to_owned()),
        _ => Ok(NodeAnswer::OfPartition(Answer::Done)),
    };
    let (driver, queues) = (driver(answer, 100), queues([1, 1]));
    run(&driver, &queues).await;
    assert_eq!(*queues.broke.lock(), [0]);
    assert_eq!(*queues.answered.lock(), [(1, 0, Answer::Done)]);
    assert_eq!(*queues.reconnected.lock(), 1);
    let why = |partitions| driver.health.no_majority(&driver.mark.members, &partitions);
    assert_eq!(why(0..2).as_deref(), Some("a: partition 0: damaged"));
    assert_eq!(why(1..2), None, "the other partition is sound");
}

#[tokio::test]
async fn a_node_that_forgot_its_mark_is_marked_and_asked_anew() {
    let answer = |request: &NodeRequest| match request {
        NodeRequest::Mark(_) => Ok(NodeAnswer::Marked),
        _ => Ok(NodeAnswer::Unmarked),
    };
    let (driver, queues) = (driver(answer, 100), queues([1, 0]));
    run(&driver, &queues).await;
    assert!(matches!(driver.client.asked.lock()[1][..], [NodeRequest::Mark(_)]));
    assert_eq!(*queues.reconnected.lock(), 2, "the partitions ask again");
}

fn heartbeat() -> NodeRequest {
    let (cluster, list, partitions, fresh) = (ClusterId(7), 1, 2, Stamp(1));
    let (server, payload, gone) = (ServerId([1; 12]), Bytes::default(), Vec::new());
    NodeRequest::Heartbeat { cluster, list, partitions, fresh, server, payload, gone }
}

fn shown(request: &NodeRequest) -> Result<NodeAnswer, String> {
    match request {
        NodeRequest::Heartbeat { .. } => Ok(NodeAnswer::Heartbeats { partitions: Vec::new(), servers: Vec::new() }),
        request => done(request),
    }
}

/// Sends a heartbeat that may take these batches along, while the node is served. Returns whether it was shown
/// something, and lets the driver do all that it can do without another answer.
async fn beat(driver: &Driver<Scripted>, queues: &Queues, batches: &[(usize, u64)]) -> bool {
    let mut serving = pin!(driver.serve(0, queues));
    assert!((&mut serving).now_or_never().is_none(), "it never ends");
    queues.idle_batches.lock().extend(batches);
    let shown = driver.heartbeat(0, heartbeat(), queues).await.is_some();
    for _ in 0..100 {
        assert!((&mut serving).now_or_never().is_none(), "it never ends");
        tokio::task::yield_now().await;
    }
    shown
}

#[tokio::test]
async fn a_heartbeat_takes_batches_along_and_brings_their_answers() {
    let (driver, queues) = (driver(shown, 100), queues([0, 0]));
    assert!(beat(&driver, &queues, &[(0, 5), (1, 6)]).await);
    assert_eq!(*queues.answered.lock(), [(0, 5, Answer::Done), (1, 6, Answer::Done)]);
    let asked = driver.client.asked.lock();
    assert!(matches!(
        &asked[0][..],
        [
            NodeRequest::Heartbeat { .. },
            NodeRequest::OfPartition { partition: 0, .. },
            NodeRequest::OfPartition { partition: 1, .. }
        ]
    ));
    assert_eq!((asked.len(), *queues.reconnected.lock()), (1, 1));
}

#[tokio::test]
async fn a_heartbeat_to_a_node_that_is_not_served_takes_no_batches_along() {
    let (driver, queues) = (driver(shown, 100), queues([0, 0]));
    queues.idle_batches.lock().push((0, 5));
    assert!(driver.heartbeat(0, heartbeat(), &queues).await.is_some());
    assert_eq!(driver.client.asked.lock()[0].len(), 1);
    assert_eq!(*queues.idle_batches.lock(), [(0, 5)], "it is not even written");
}

#[tokio::test]
async fn a_batch_that_breaks_ends_no_heartbeat() {
    let answer = |request: &NodeRequest| match request {
        NodeRequest::OfPartition { .. } => Err("damaged".to_owned()),
        request => shown(request),
    };
    let (driver, queues) = (driver(answer, 100), queues([0, 0]));
    assert!(beat(&driver, &queues, &[(1, 6)]).await);
    assert_eq!((&**queues.broke.lock(), *queues.reconnected.lock()), (&[1][..], 1));
}

#[tokio::test]
async fn a_heartbeat_that_breaks_ends_no_batch() {
    let answer = |request: &NodeRequest| match request {
        NodeRequest::Heartbeat { .. } => Err("damaged".to_owned()),
        request => shown(request),
    };
    let (driver, queues) = (driver(answer, 100), queues([0, 0]));
    assert!(!beat(&driver, &queues, &[(1, 6)]).await);
    assert_eq!(*queues.answered.lock(), [(1, 6, Answer::Done)]);
}

#[tokio::test]
async fn a_node_that_forgot_its_mark_has_the_batches_of_a_heartbeat_asked_anew() {
    let answer = |request: &NodeRequest| match request {
        NodeRequest::Mark(_) => Ok(NodeAnswer::Marked),
        _ => Ok(NodeAnswer::Unmarked),
    };
    for (batches, reconnections) in [(&[][..], 1), (&[(0, 5)], 2)] {
        let (driver, queues) = (driver(answer, 100), queues([0, 0]));
        assert!(!beat(&driver, &queues, batches).await);
        let marks = |asked: &Vec<NodeRequest>| matches!(asked[..], [NodeRequest::Mark(_)]);
        assert_eq!(driver.client.asked.lock().iter().filter(|asked| marks(asked)).count(), 1);
        assert_eq!(*queues.reconnected.lock(), reconnections, "{batches:?}");
    }
}

#[tokio::test]
async fn the_batches_of_a_heartbeat_that_is_lost_are_asked_anew() {
    let (driver, queues) = (driver(shown, 0), queues([0, 0]));
    driver.client.may_answer.close();
    assert!(!beat(&driver, &queues, &[(0, 5)]).await);
    assert_eq!(*queues.reconnected.lock(), 2);
}

#[tokio::test]
async fn a_newer_list_is_told_once() {
    let answer = |_: &NodeRequest| {
        let members = ["b".into()].into();
        Ok(NodeAnswer::List(Mark { cluster: ClusterId(7), list: 2, partitions: 2, members, rebuild: None }))
    };
    let (driver, queues) = (driver(answer, 100), queues([1, 0]));
    let mut newer = driver.newer();
    run(&driver, &queues).await;
    assert_eq!(newer.borrow_and_update().as_ref().map(|mark| mark.list), Some(2));
    assert!(driver.heartbeat(0, heartbeat(), &queues).await.is_none(), "it serves another list");
    assert!(!newer.has_changed().unwrap(), "the same list is no news");
}
