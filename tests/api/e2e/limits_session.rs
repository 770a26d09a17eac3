//! What is beyond the limits of the API is refused on a session as it is by the unary call.

use crate::{
    limits::{beyond_limits, beyond_permits, beyond_spans},
    session_stream::Session,
    support::{Lock as _, Server, acquire_request, assert_bad_field},
};
use fencepost::testing::domain::limits::Limits;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn each_field_beyond_its_limit_is_refused_and_the_session_continues() {
    let server = Server::start_with(|config| config.limits = Limits::default()).await;
    let mut session = Session::open(server.client()).await;
    let refused = || beyond_limits().into_iter().chain(beyond_spans()).chain(beyond_permits());
    // All have the same handle: a refused request leaves it free.
    for (field, request) in refused() {
        session.acquire(1, request).await;
        assert_bad_field(Err::<(), _>(session.failed(1).await), field);
    }
    assert_eq!(server.client().holder("a").await, None, "a refused request has no effect");
    // Many in flight are refused one by one.
    for (number, (_, request)) in (1..).zip(refused()) {
        session.acquire(number, request).await;
    }
    for (number, (field, _)) in (1..).zip(refused()) {
        assert_bad_field(Err::<(), _>(session.failed(number).await), field);
    }
    session.acquire_lease(1, acquire_request("a", TTL)).await;
}
