//! Hostile input: the server answers with a documented code or closes that connection, and keeps serving.
//!
//! A handler that panics resets its stream, which a client sees as an error with a code that the API does not document.

use crate::support::{Lock, Server, acquire_request, assert_refused, channel, span, until, within};
use fencepost_proto::v1::{self, lock_service_client::LockServiceClient};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config as PropConfig, TestRunner},
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::{Code, Request, Status};

const CASES: usize = 2_000;

fn duration() -> impl Strategy<Value = Option<prost_types::Duration>> {
    let edges = prop_oneof![Just(0), Just(1), Just(-1), Just(i64::MAX), Just(i64::MIN), any::<i64>()];
    let nanos = prop_oneof![Just(0), Just(i32::MAX), Just(i32::MIN), Just(999_999_999), any::<i32>()];
    proptest::option::of((edges, nanos).prop_map(|(seconds, nanos)| prost_types::Duration { seconds, nanos }))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("a".into()),
        Just("00000000-0000-0000-0000-000000000000".into()),
        Just("ffffffff-ffff-ffff-ffff-ffffffffffff".into()),
        ".{0,40}",
        "[a-z\u{0}-\u{1f}]{0,600}",
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(1 << 53), Just((1 << 53) - 1), any::<u64>()]
}

fn acquire() -> impl Strategy<Value = v1::AcquireRequest> {
    let ids = (text(), text(), text(), text(), any::<u32>(), number());
    let kinds = (any::<i32>(), prop_oneof![Just(0), any::<u32>()]);
    let spans = (duration(), duration(), duration(), duration());
    (ids, kinds, spans, proptest::collection::hash_map(text(), text(), 0..4)).prop_map(
        |(
            (lock_name, holder, owner, request_id, attempt, min_token),
            (mode, permits),
            (ttl, lock_delay, min_hold, max_hold),
            metadata,
        )| {
            v1::AcquireRequest {
                lock_name,
                holder,
                ttl,
                // Waiting would only slow the test down.
                wait_timeout: None,
                request_id,
                attempt,
                metadata,
                min_token,
                mode: if permits % 2 == 0 { 0 } else { mode },
                permits,
                lock_delay,
                min_hold,
                max_hold,
                permit_limit: permits / 2,
                permit_limit_version: u64::from(permits % 3),
                owner,
                max_waiters: permits / 4,
                tell_when_wanted: permits % 5 == 0,
            }
        },
    )
}

/// Checks that a refusal has a code that the API documents.
fn assert_documented<T>(answer: Result<T, Status>, request: &impl std::fmt::Debug) {
    if let Err(status) = answer {
        let known = [Code::InvalidArgument, Code::Aborted, Code::FailedPrecondition, Code::OutOfRange];
        assert!(known.contains(&status.code()), "{status:?} for {request:?}");
    }
}

#[tokio::test]
async fn requests_with_any_content_get_a_documented_answer() {
    let server = Server::start().await;
    let (mut client, mut admin) = (server.client(), server.admin());
    let mut runner = TestRunner::new(PropConfig::default());
    let mut some = |strategy: &BoxedStrategy<_>| strategy.new_tree(&mut runner).unwrap().current();
    let strategy = (acquire(), text(), text(), number(), duration(), any::<u32>()).boxed();
    for _ in 0..CASES {
        let (request, lock_name, lease_id, token, ttl, size): (v1::AcquireRequest, String, String, u64, _, u32) =
            some(&strategy);
        assert_documented(within(client.acquire(request.clone())).await, &request);
        let release = v1::ReleaseRequest { lock_name: lock_name.clone(), lease_id: lease_id.clone() };
        assert_documented(within(client.release(release.clone())).await, &release);
        let renew = v1::RenewRequest { lock_name: lock_name.clone(), lease_id: lease_id.clone(), ttl };
        assert_documented(within(client.renew(renew.clone())).await, &renew);
        let describe = v1::DescribeRequest {
            lock_name: lock_name.clone(),
            lease_id: lease_id.clone(),
            metadata: request.metadata.clone(),
            holder: Some(request.holder.clone()),
            number: token,
        };
        assert_documented(within(client.describe(describe.clone())).await, &describe);
        let waiters =
            v1::ListWaitersRequest { lock_name: lock_name.clone(), page_size: size, page_token: lease_id.clone() };
        assert_documented(within(client.list_waiters(waiters.clone())).await, &waiters);
        let check = v1::CheckTokenRequest { lock_name: lock_name.clone(), fencing_token: token };
        assert_documented(within(client.check_token(check.clone())).await, &check);
        let list = v1::ListRequest { prefix: lock_name.clone(), page_size: size, page_token: lease_id.clone() };
        assert_documented(within(client.list(list.clone())).await, &list);
        let force =
            v1::ForceReleaseRequest { lock_name: lock_name.clone(), expected_token: token, reason: lease_id.clone() };
        assert_documented(within(admin.force_release(force.clone())).await, &force);
        let lease =
            v1::LeaseAttachment { handle: size, lock_name, lease_id, attempt: size, release_on_disconnect: true };
        use v1::keep_alive_request::Message;
        let messages = [
            Message::Attach(v1::AttachLeases { leases: vec![lease] }),
            Message::Detach(v1::DetachLeases { handles: vec![size, size] }),
            Message::Answer(v1::BeatAnswer { beat: token }),
        ]
        .map(|message| v1::KeepAliveRequest { message: Some(message) });
        let mut stream = within(client.keep_alive(tokio_stream::iter(messages))).await.unwrap().into_inner();
        loop {
            match within(stream.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(status) => {
                    assert_documented::<()>(Err(status), &"stream");
                    break;
                }
            }
        }
    }
    client.acquire_lease(acquire_request("still served", Duration::from_secs(30))).await;
}

#[tokio::test]
async fn invalid_deadlines_are_ignored() {
    let server = Server::start().await;
    let mut client = server.client();
    for text in ["", "S", "-1S", "99999999H", "123456789S", "1x", "1 S", "0x1S"] {
        let mut request = Request::new(acquire_request("a", Duration::from_secs(30)));
        request.get_mut().wait_timeout = span(Duration::from_millis(1));
        request.metadata_mut().insert("grpc-timeout", text.parse().unwrap());
        assert_documented(within(client.acquire(request)).await, &text);
    }
}

#[tokio::test]
async fn bytes_that_are_not_grpc_close_only_their_own_connection() {
    let server = Server::start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut garbage = vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0; 4_096],
        preface.clone(),
        [preface.clone(), vec![0xff; 4_096]].concat(),
    ];
    let mut runner = TestRunner::new(PropConfig::default());
    let noise = proptest::collection::vec(any::<u8>(), 0..300);
    for _ in 0..100 {
        let noise = noise.new_tree(&mut runner).unwrap().current();
        garbage.push([preface.clone(), noise].concat());
    }
    for bytes in garbage {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        // The server may have closed already.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let _ = within(stream.read_to_end(&mut Vec::new())).await;
    }
    server.client().acquire_lease(acquire_request("still served", Duration::from_secs(30))).await;
}

#[tokio::test]
async fn a_message_that_does_not_decode_is_refused() {
    let server = Server::start().await;
    // The two messages have fields of different types with the same number.
    let mut client = tonic::client::Grpc::new(channel(server.addr));
    within(client.ready()).await.unwrap();
    let codec = tonic_prost::ProstCodec::<v1::LeaseAttachment, v1::AcquireResponse>::default();
    let request = v1::LeaseAttachment { handle: 5, ..v1::LeaseAttachment::default() };
    let path = http::uri::PathAndQuery::from_static("/fencepost.v1.LockService/Acquire");
    let status = within(client.unary(Request::new(request), path, codec)).await.unwrap_err();
    assert_refused(Err::<(), _>(status), Code::InvalidArgument, "INVALID_FIELD");
    let mut client = LockServiceClient::new(server.channel());
    until(|| {
        let mut client = client.clone();
        async move { client.holder("a").await.is_none() }
    })
    .await;
    client.acquire_lease(acquire_request("a", Duration::from_secs(30))).await;
}
