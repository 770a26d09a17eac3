//! A session whose client stops reading and resumes, against releases of its lock, and a waiter behind it.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod support;

use fencepost_schedules::{
    check,
    domain::{
        ids::{Call, CallId},
        limits::{Limits, STALL_CHECK_PERIOD},
    },
    locks::{
        AcquireAnswer, AcquireCall,
        session::{Acquire, Answer, FromClient, Operation, ToClient, session},
    },
    sync::Notify,
    task::{block_on, spawn, yield_now},
    time::{Instant, advance},
};
use std::{pin::pin, sync::Arc, time::Duration};
use support::{SECOND, acquire, granted, name, request, service, terms};
use tokio_stream::StreamExt;

const MINUTE: Duration = Duration::from_secs(60);

fn begin() -> FromClient<()> {
    let call = AcquireCall {
        call: Call { request: request(2), attempt: 1, id: CallId(1) },
        terms: terms(30 * SECOND),
        wait: MINUTE,
        arrived: Instant::now(),
        deadline: None,
        attachment: None,
        waiter: None,
    };
    FromClient::Begin(
        1,
        Operation::Acquire(Box::new(Acquire { name: name("a"), call, handle: 1, release_on_disconnect: false })),
    )
}

/// Seeded mutant that it finds: a driver that resumes does not poll what was ready before.
#[test]
fn a_session_progresses_whoever_drives_it() {
    check(|| {
        block_on(async {
            let locks = service(Limits::default());
            let holder = granted(acquire(&locks, &name("a"), 1, 1, MINUTE).await);
            let (waits, read_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let requests = tokio_stream::once(begin()).chain(tokio_stream::pending()).map(Ok);
            let stream = session(locks.clone(), ((), None), requests, SECOND);
            let reader = spawn({
                let (locks, waits, read_on) = (locks.clone(), waits.clone(), read_on.clone());
                async move {
                    let mut stream = pin!(stream);
                    loop {
                        match stream.next().await.unwrap().unwrap() {
                            ToClient::Answer(1, Answer::Waiting(_)) => {
                                waits.notify_one();
                                read_on.notified().await;
                            }
                            ToClient::Answer(1, Answer::Acquire { answer: AcquireAnswer::Acquired(has), .. }) => {
                                locks.release(&name("a"), has.grant.lease_id).await.unwrap();
                                return;
                            }
                            ToClient::Kept(_) => {}
                            ToClient::Answer(number, other) => panic!("{number}: {other:?}"),
                        }
                    }
                }
            });
            waits.notified().await;
            // Shorter than the lifetime of a queue position or an offer.
            let time = spawn(async {
                for _ in 0..4 {
                    yield_now().await;
                    advance(STALL_CHECK_PERIOD);
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
            let reads = spawn(async move { read_on.notify_one() });
            for task in [time, behind, reads, reader] {
                task.await.unwrap();
            }
            release.await.unwrap();
            let view = locks.view(&name("a"), None).await.unwrap();
            assert_eq!((view.current, view.waiters, locks.busy()), (None, 0, (0, 0)));
        });
    });
}
