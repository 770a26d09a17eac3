//! A session that ends at any moment, against releases of the lock it waits for, and waiters behind it.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod support;

use fencepost_schedules::{
    check,
    domain::{
        ids::{Call, CallId, LeaseId},
        limits::{DROP_GRACE, Limits},
        token::FencingToken,
    },
    locks::{
        AcquireAnswer, AcquireCall,
        session::{Acquire, Answer, FromClient, Operation, ToClient, session},
    },
    select,
    sync::{Mutex, Notify},
    task::{block_on, spawn},
    time::{Instant, advance},
};
use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};
use support::{SECOND, acquire, granted, name, request, service, terms};
use tokio_stream::{Stream, StreamExt};

const MINUTE: Duration = Duration::from_secs(60);

fn begin(number: u64) -> FromClient<()> {
    acquires(number, false)
}

fn acquires(number: u64, release_on_disconnect: bool) -> FromClient<()> {
    let call = AcquireCall {
        call: Call { request: request(u128::from(number) + 1), attempt: 1, id: CallId(1) },
        terms: terms(30 * SECOND),
        wait: MINUTE,
        arrived: Instant::now(),
        deadline: None,
        attachment: None,
        waiter: None,
    };
    let handle = u32::try_from(number).unwrap();
    FromClient::Begin(
        number,
        Operation::Acquire(Box::new(Acquire { name: name("a"), call, handle, release_on_disconnect })),
    )
}

/// Two acquires of the lock, and a cancellation of the first at some time.
fn requests(cancel: Arc<Notify>) -> impl Stream<Item = Result<FromClient<()>, ()>> + Send {
    let cancelled = tokio_stream::once(cancel).then(async |cancel| {
        cancel.notified().await;
        FromClient::Cancel(1)
    });
    tokio_stream::iter([begin(1), begin(2)]).chain(cancelled).chain(tokio_stream::pending()).map(Ok)
}

/// Grants that a session has reported.
type Grants = Arc<Mutex<Vec<(FencingToken, LeaseId)>>>;

/// Records a grant, and returns the number of the operation that the message answers, if any.
fn record(grants: &Grants, message: ToClient<()>) -> Option<u64> {
    match message {
        ToClient::Answer(number, Answer::Acquire { answer: AcquireAnswer::Acquired(acquired), .. }) => {
            grants.lock().push((acquired.grant.token, acquired.grant.lease_id));
            Some(number)
        }
        ToClient::Answer(number, Answer::Acquire { answer: AcquireAnswer::TimedOut(_), .. }) => {
            assert_eq!(number, 1, "the other one waits on");
            Some(number)
        }
        ToClient::Answer(_, Answer::Waiting(_)) | ToClient::Kept(_) => None,
        ToClient::Answer(number, other) => panic!("{number}: {other:?}"),
    }
}

#[test]
fn an_acquire_cancelled_during_a_release_gets_the_lock_or_leaves_it() {
    cancel_during_release(false);
}

/// Seeded mutant that it finds: the cancellation does not reach the call.
#[test]
fn a_cancelled_acquire_is_answered_while_the_lock_is_held() {
    cancel_during_release(true);
}

fn cancel_during_release(is_held_until_then: bool) {
    check(move || {
        block_on(async {
            let locks = service(Limits::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, MINUTE).await);
            let (cancel, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let stream = session(locks.clone(), ((), None), requests(cancel.clone()), SECOND);
            let reader = spawn({
                let (locks, answer) = (locks.clone(), answer.clone());
                async move {
                    let (mut stream, mut answered) = (pin!(stream), BTreeSet::new());
                    while answered.len() < 2 {
                        let grants = Grants::default();
                        if let Some(number) = record(&grants, stream.next().await.unwrap().unwrap()) {
                            assert!(answered.insert(number), "once");
                            answer.notify_one();
                        }
                        let had = grants.lock().pop();
                        if let Some((_, lease_id)) = had {
                            locks.release(&name("a"), lease_id).await.unwrap();
                        }
                    }
                }
            });
            let release = spawn({
                let locks = locks.clone();
                async move {
                    if is_held_until_then {
                        answer.notified().await;
                    }
                    locks.release(&name("a"), holder.lease_id).await.unwrap()
                }
            });
            cancel.notify_one();
            reader.await.unwrap();
            release.await.unwrap();
            let view = locks.view(&name("a"), None).await.unwrap();
            assert_eq!((view.current, view.waiters, locks.busy()), (None, 0, (0, 0)));
        });
    });
}

/// Seeded mutants that it finds: a grant that was not delivered is not returned; no cleanup after a dropped call.
///
/// Only one stream in a schedule: async-stream passes items through a thread-local, which all tasks share here.
#[test]
fn a_session_that_ends_at_any_moment_blocks_nobody() {
    check(|| {
        block_on(async {
            let (locks, grants) = (service(Limits::default()), Grants::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, MINUTE).await);
            let (cancel, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let stream = session(locks.clone(), ((), None), requests(cancel.clone()), SECOND);
            let reader = spawn({
                let (grants, end) = (grants.clone(), end.clone());
                async move {
                    let mut stream = pin!(stream);
                    loop {
                        select! {
                            biased;
                            () = end.notified() => return,
                            message = stream.next() => { record(&grants, message.unwrap().unwrap()); }
                        }
                    }
                }
            });
            let behind = spawn({
                let locks = locks.clone();
                async move {
                    let grant = granted(acquire(&locks, &name("a"), 9, 1, MINUTE).await);
                    locks.release(&name("a"), grant.lease_id).await.unwrap();
                }
            });
            let release = spawn({
                let locks = locks.clone();
                async move { locks.release(&name("a"), holder.lease_id).await.unwrap() }
            });
            let canceller = spawn(async move { cancel.notify_one() });
            end.notify_one();
            reader.await.unwrap();
            release.await.unwrap();
            canceller.await.unwrap();
            let grants = grants.lock().clone();
            assert!(grants.len() <= 1, "one holder at a time: {grants:?}");
            for (token, lease_id) in grants {
                let current = locks.view(&name("a"), None).await.unwrap().current;
                assert_eq!(current.map(|current| current.token), Some(token), "a reported grant is current");
                locks.release(&name("a"), lease_id).await.unwrap();
            }
            // A lease whose grant was not delivered is over by now, and the next call notices that.
            advance(DROP_GRACE);
            if let Ok(AcquireAnswer::Acquired(tried)) = acquire(&locks, &name("a"), 98, 1, Duration::ZERO).await {
                locks.release(&name("a"), tried.grant.lease_id).await.unwrap();
            }
            behind.await.unwrap();
            advance(DROP_GRACE);
            assert_eq!(locks.busy(), (0, 0));
            let view = locks.view(&name("a"), None).await.unwrap();
            assert_eq!((view.current, view.waiters), (None, 0));
            granted(acquire(&locks, &name("a"), 99, 1, Duration::ZERO).await);
        });
    });
}

/// Seeded mutant that it finds: the stream is counted out before its leases are given back.
#[test]
fn a_client_that_ends_the_last_stream_of_a_drain_gives_its_lease_back() {
    check(|| {
        block_on(async {
            let (locks, granted) = (service(Limits::default()), Arc::new(Notify::new()));
            let requests = tokio_stream::iter([acquires(1, true)]).chain(tokio_stream::pending()).map(Ok);
            let stream = session(locks.clone(), ((), None), requests, SECOND);
            let reader = spawn({
                let granted = granted.clone();
                async move {
                    let (mut stream, grants) = (Box::pin(stream), Grants::default());
                    while record(&grants, stream.next().await.unwrap().unwrap()).is_none() {}
                    granted.notify_one();
                    drop(stream);
                }
            });
            let drain = spawn({
                let locks = locks.clone();
                async move {
                    granted.notified().await;
                    locks.drain();
                    locks.quiet().await;
                    locks.end_streams();
                }
            });
            reader.await.unwrap();
            drain.await.unwrap();
            let view = locks.view(&name("a"), None).await.unwrap();
            assert_eq!((view.current, locks.busy()), (None, (0, 0)));
        });
    });
}
