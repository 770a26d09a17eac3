//! Drain: waiters are refused, streams are notified, and the server stops in time.

use crate::support::{Lock, PATIENCE, Server, acquire_request, assert_refused, until, waiting_request, within};
use fencepost_proto::v1::{self, LeaseEnd, keep_alive_response::Message};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);

#[tokio::test]
async fn a_drain_refuses_waiters_notifies_streams_and_lets_holders_release() {
    let mut server = Server::start().await;
    let mut client = server.client();
    let mut health = HealthClient::new(server.channel());
    for service in fencepost::testing::api::service_names(true) {
        let answer = health.check(HealthCheckRequest { service: (*service).into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let mut changes = within(health.watch(HealthCheckRequest { service: String::new() })).await.unwrap().into_inner();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let (keep_open, outbound) = tokio::sync::mpsc::channel::<v1::KeepAliveRequest>(1);
    let requests = tokio_stream::wrappers::ReceiverStream::new(outbound);
    let mut stream = within(client.keep_alive(requests)).await.unwrap().into_inner();
    let mut other = server.client();
    let waiter = tokio::spawn(async move { other.acquire(waiting_request("a", TTL, LONG)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;

    server.shut_down();
    let status = assert_refused(within(waiter).await.unwrap(), Code::Unavailable, "DRAINING");
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    let notice = within(async {
        loop {
            if let Some(Message::Draining(draining)) = stream.next().await.unwrap().unwrap().message {
                return draining;
            }
        }
    })
    .await;
    assert!(notice.grace.is_some());
    within(async { while changes.next().await.unwrap().unwrap().status() != ServingStatus::NotServing {} }).await;
    assert_refused(client.acquire(acquire_request("b", TTL)).await, Code::Unavailable, "DRAINING");
    let refused = client.keep_alive(tokio_stream::empty()).await.map(|_| ());
    assert_refused(refused, Code::Unavailable, "DRAINING");
    assert_eq!(client.release_lease(&lease).await, LeaseEnd::Released);
    drop((keep_open, stream, changes));
    within(&mut server.task).await.unwrap();
}

#[tokio::test]
async fn a_drain_ends_within_its_timeout_even_if_clients_stay() {
    let timeout = Duration::from_millis(300);
    let mut server = Server::start_with(|config| config.drain_timeout = timeout).await;
    let mut client = server.client();
    let (_keep_open, outbound) = tokio::sync::mpsc::channel::<v1::KeepAliveRequest>(1);
    let requests = tokio_stream::wrappers::ReceiverStream::new(outbound);
    let mut stream = within(client.keep_alive(requests)).await.unwrap().into_inner();
    let _watch = within(client.watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    // A silent connection, which hyper's own shutdown would wait for forever.
    let _silent = TcpStream::connect(server.addr).await.unwrap();
    let start = Instant::now();
    server.shut_down();
    within(&mut server.task).await.unwrap();
    assert!(start.elapsed() < PATIENCE / 2);
    let end = within(async {
        loop {
            match stream.next().await {
                Some(Ok(_)) => {}
                other => return other,
            }
        }
    })
    .await;
    assert_eq!(end.unwrap().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn an_operator_can_drain_the_server() {
    let mut server = Server::start().await;
    let mut client = server.client();
    client.acquire_lease(acquire_request("a", TTL)).await;
    let mut other = server.client();
    let waiter = tokio::spawn(async move { other.acquire(waiting_request("a", TTL, LONG)).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    let answer = server.admin().drain(v1::DrainRequest {}).await.unwrap().into_inner();
    assert_eq!((answer.waiters, answer.streams), (1, 0));
    assert_refused(within(waiter).await.unwrap(), Code::Unavailable, "DRAINING");
    within(&mut server.task).await.unwrap();
}
