//! A session that ends at any moment, against those who free the lock that it waits for, and those who wait behind it.

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
        session::{Answer, FromClient, Operation, ToClient, session},
    },
    select,
    sync::{Mutex, Notify},
    task::{block_on, spawn},
    time::{Instant, advance},
};
use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};
use support::{SECOND, granted, name, request, service, terms, want};
use tokio_stream::{Stream, StreamExt};

const MINUTE: Duration = Duration::from_secs(60);

fn begin(number: u64) -> FromClient<()> {
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
    FromClient::Begin(number, Operation::Acquire { name: name("a"), call, handle, release_on_disconnect: false })
}

/// Two that want the lock, and at some time one that does not any more.
fn said(cancel: Arc<Notify>) -> impl Stream<Item = Result<FromClient<()>, ()>> + Send {
    let cancelled = tokio_stream::once(cancel).then(async |cancel| {
        cancel.notified().await;
        FromClient::Cancel(1)
    });
    tokio_stream::iter([begin(1), begin(2)]).chain(cancelled).chain(tokio_stream::pending()).map(Ok)
}

/// What a session was told of a grant.
type Told = Arc<Mutex<Vec<(FencingToken, LeaseId)>>>;

/// Answers which operation this is the answer to, if it is one.
fn note(told: &Told, message: ToClient<()>) -> Option<u64> {
    match message {
        ToClient::Answer(number, Answer::Acquire { answer: AcquireAnswer::Acquired(acquired), .. }) => {
            told.lock().push((acquired.grant.token, acquired.grant.lease_id));
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
fn an_acquire_that_is_cancelled_as_the_lock_is_given_back_has_it_or_leaves_it() {
    cancelled_and_served(false);
}

/// Seeded and found: the cancellation does not reach the call.
#[test]
fn a_cancelled_acquire_is_answered_while_the_lock_is_held() {
    cancelled_and_served(true);
}

fn cancelled_and_served(is_held_until_then: bool) {
    check(move || {
        block_on(async {
            let locks = service(Limits::default());
            let holder = granted(want(&locks, &name("a"), 1, 1, MINUTE).await);
            let (cancel, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let stream = session(locks.clone(), (), said(cancel.clone()), SECOND);
            let reader = spawn({
                let (locks, answer) = (locks.clone(), answer.clone());
                async move {
                    let (mut stream, mut answered) = (pin!(stream), BTreeSet::new());
                    while answered.len() < 2 {
                        let told = Told::default();
                        if let Some(number) = note(&told, stream.next().await.unwrap().unwrap()) {
                            assert!(answered.insert(number), "once");
                            answer.notify_one();
                        }
                        let had = told.lock().pop();
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
            let view = locks.view(&name("a")).await.unwrap();
            assert_eq!((view.current, view.waiters, locks.busy()), (None, 0, (0, 0)));
        });
    });
}

/// Seeded and found: a grant that was not passed on any more is not handed back; a call that is dropped is not cleaned
/// up after.
///
/// Only one stream in a schedule: async-stream passes items on through a variable of the thread, which all tasks share
/// here.
#[test]
fn a_session_that_ends_at_any_moment_holds_nobody_up() {
    check(|| {
        block_on(async {
            let (locks, told) = (service(Limits::default()), Told::default());
            let holder = granted(want(&locks, &name("a"), 1, 1, MINUTE).await);
            let (cancel, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let stream = session(locks.clone(), (), said(cancel.clone()), SECOND);
            let reader = spawn({
                let (told, end) = (told.clone(), end.clone());
                async move {
                    let mut stream = pin!(stream);
                    loop {
                        select! {
                            biased;
                            () = end.notified() => return,
                            message = stream.next() => { note(&told, message.unwrap().unwrap()); }
                        }
                    }
                }
            });
            let behind = spawn({
                let locks = locks.clone();
                async move {
                    let grant = granted(want(&locks, &name("a"), 9, 1, MINUTE).await);
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
            let told = told.lock().clone();
            assert!(told.len() <= 1, "one holder at a time: {told:?}");
            for (token, lease_id) in told {
                let current = locks.view(&name("a")).await.unwrap().current;
                assert_eq!(current.map(|current| current.token), Some(token), "who was told so has it");
                locks.release(&name("a"), lease_id).await.unwrap();
            }
            // What it was granted unheard is over by then, and whoever comes by sees that.
            advance(DROP_GRACE);
            if let Ok(AcquireAnswer::Acquired(tried)) = want(&locks, &name("a"), 98, 1, Duration::ZERO).await {
                locks.release(&name("a"), tried.grant.lease_id).await.unwrap();
            }
            behind.await.unwrap();
            advance(DROP_GRACE);
            assert_eq!(locks.busy(), (0, 0));
            let view = locks.view(&name("a")).await.unwrap();
            assert_eq!((view.current, view.waiters), (None, 0));
            granted(want(&locks, &name("a"), 99, 1, Duration::ZERO).await);
        });
    });
}
