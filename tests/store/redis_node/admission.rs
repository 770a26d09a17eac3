//! No command goes to an incarnation that was not checked, and few checks serve many commands.

use super::{Kept, Redis};
use fencepost::node::{Admission, Checks, Connection, NodeError};
use futures_util::future::join_all;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Passes if it is told to, after a while.
#[derive(Default)]
struct Told {
    fit: AtomicBool,
    checked: AtomicUsize,
}

impl Checks for Told {
    type Error = NodeError;

    async fn check(&self, _: &Arc<Connection>) -> Result<(), NodeError> {
        self.checked.fetch_add(1, Relaxed);
        sleep(Duration::from_millis(50)).await;
        if self.fit.load(Relaxed) { Ok(()) } else { Err(NodeError::Unavailable("not fit".to_owned())) }
    }

    async fn still_pass(&self, _: &Arc<Connection>) -> bool {
        self.fit.load(Relaxed)
    }
}

#[tokio::test]
async fn many_commands_wait_for_one_check_and_a_changed_node_is_noticed() {
    let mut redis = Redis::start(&[]);
    let kept = Kept::to(&redis).await;
    let (admission, told) = (Arc::new(Admission::<NodeError>::default()), Arc::new(Told::default()));
    let (own, node, checks) = (Arc::clone(&admission), Arc::clone(&kept.node), Arc::clone(&told));
    let running = tokio::spawn(async move { own.run(&node, &*checks).await });

    let connection = kept.connection();
    let refused = join_all((0..100).map(|_| admission.admit(&connection))).await;
    assert!(refused.iter().all(|answer| *answer == Err(NodeError::Unavailable("not fit".to_owned()))), "{refused:?}");
    assert!(told.checked.load(Relaxed) <= 2, "{} checks", told.checked.load(Relaxed));
    assert!(!*admission.up().borrow());

    // Nobody asks, and it is found fit all the same.
    told.fit.store(true, Relaxed);
    admission.up().wait_for(|up| *up).await.unwrap();
    let checked = told.checked.load(Relaxed);
    let admitted = join_all((0..100).map(|_| admission.admit(&connection))).await;
    assert!(admitted.iter().all(Result::is_ok) && told.checked.load(Relaxed) == checked, "{admitted:?}");

    // Another incarnation is another check.
    redis.kill();
    admission.up().wait_for(|up| !*up).await.unwrap();
    redis.restart(false);
    kept.all_up().await;
    assert_eq!(admission.admit(&kept.connection()).await, Ok(()));
    assert_eq!(told.checked.load(Relaxed), checked + 1);

    // What an operator changes is found by the next check of what was admitted.
    told.fit.store(false, Relaxed);
    let start = Instant::now();
    admission.up().wait_for(|up| !*up).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(admission.admit(&kept.connection()).await.is_err());

    running.abort();
    let _ = running.await;
    assert!(admission.admit(&kept.connection()).await.unwrap_err().to_string().contains("stopping"));
}
