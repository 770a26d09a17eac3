//! Keeping a lease that came from elsewhere: from a raw call, or from another process.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{Fake, TTL, client};
use fencepost_client::{LossCause, Moment, v1};
use std::time::Duration;

#[tokio::test]
async fn a_lease_that_makes_no_sense_is_lost_from_the_start_and_harms_no_other() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let good = client.acquire("good").ttl(TTL).await.unwrap();
    let sound = fake::lease("x");
    let bad = [
        v1::Lease { lock_name: String::new(), ..sound.clone() },
        v1::Lease { lock_name: "x".repeat(513), ..sound.clone() },
        v1::Lease { lock_name: "x\n".to_owned(), ..sound.clone() },
        v1::Lease { lease_id: String::new(), ..sound.clone() },
        v1::Lease { lease_id: "secret".to_owned(), ttl: None, ..sound },
    ];
    let locks = bad.map(|lease| client.keep(lease, Moment::now(), Duration::ZERO));
    for lock in &locks {
        assert!(!lock.is_valid());
        assert_eq!(lock.lost().await.cause, LossCause::Invalid);
    }
    let answers = fake.state().streams[0].answers.len();
    fake.until("a TTL of answers", |state| state.streams[0].answers.len() > answers + 12).await;
    drop(locks);
    client.settle().await;
    assert!(good.is_valid());
    let state = fake.state();
    assert_eq!((state.streams.len(), state.streams[0].all_attached.len()), (1, 1));
    assert!(state.releases.is_empty(), "there is nothing to give back");
}
