//! Keep-alive streams.

use crate::{
    link::freezable_link,
    stream::{Stream, attachment},
    support::{
        Lock, Server, acquire_request, assert_bad_field, assert_refused, channel, read, until, waiting_request, within,
    },
};
use fencepost_proto::v1::{
    self, LeaseEnd, detached, keep_alive_request::Message as ClientMessage,
    keep_alive_response::Message as ServerMessage, lock_service_client::LockServiceClient,
};
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const TTL: Duration = Duration::from_secs(30);
/// Long enough for answers that are more than a second late on a busy machine.
const SHORT: Duration = Duration::from_secs(3);

fn groups(message: ServerMessage) -> Vec<(Duration, Vec<u32>)> {
    let groups = match message {
        ServerMessage::Attached(attached) => attached.leases,
        ServerMessage::Renewed(renewed) => renewed.leases,
        other => panic!("{other:?}"),
    };
    groups.into_iter().map(|group| (read(group.ttl), group.handles)).collect()
}

#[tokio::test]
async fn answered_beats_renew_a_lease_and_unanswered_ones_do_not() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", SHORT)).await;
    let mut stream = Stream::open(server.client()).await;
    assert!(
        matches!(stream.next().await, Ok(ServerMessage::Beat(v1::Beat { beat: 1, .. }))),
        "the first beat is sent at once"
    );
    stream.attach(vec![attachment(7, &lease)]).await;
    assert_eq!(groups(stream.next_but_beats(false).await), [(SHORT, vec![7])]);
    let renewed = stream.answer_for(SHORT * 5 / 2, |_| true).await;
    assert!((2..=8).contains(&renewed), "about three renewals in a TTL, not {renewed} in 2.5 TTLs");
    let current = client.holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token, "a renewal does not change the token");
    // From here on the client is connected but silent, like a paused process.
    let ServerMessage::Lost(lost) = stream.next_but_beats(false).await else { panic!("not lost") };
    assert_eq!((lost.handle, lost.end()), (7, LeaseEnd::Expired));
    assert_eq!(client.holder("a").await, None);
}

#[tokio::test]
async fn a_lease_is_kept_if_only_some_beats_are_answered() {
    let server = Server::start().await;
    let mut client = server.client();
    let ttl = SHORT * 4 / 3;
    let lease = client.acquire_lease(acquire_request("a", ttl)).await;
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    groups(stream.next_but_beats(false).await);
    let renewed = stream.answer_for(ttl * 5 / 2, |beat| beat % 3 == 0).await;
    assert!(renewed >= 2, "{renewed}");
    assert!(client.holder("a").await.is_some());
}

#[tokio::test]
async fn the_leases_of_an_ended_stream_live_on_and_can_be_attached_to_another() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", SHORT)).await;
    let mut first = Stream::open(server.client()).await;
    first.attach(vec![attachment(1, &lease)]).await;
    groups(first.next_but_beats(false).await);
    drop(first);
    let mut second = Stream::open(server.client()).await;
    second.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(9, &lease) }]).await;
    assert_eq!(groups(second.next_but_beats(false).await), [(SHORT, vec![9])]);
    second.answer_for(SHORT * 3 / 2, |_| true).await;
    assert_eq!(client.holder("a").await.unwrap().fencing_token, lease.fencing_token);
}

#[tokio::test]
async fn the_newest_attachment_wins_over_older_ones_that_arrive_late() {
    use detached::Reason;
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let (mut old, mut new, mut late) =
        (Stream::open(server.client()).await, Stream::open(server.client()).await, Stream::open(server.client()).await);
    old.attach(vec![attachment(1, &lease)]).await;
    groups(old.next_but_beats(false).await);
    new.attach(vec![v1::LeaseAttachment { attempt: 3, ..attachment(1, &lease) }]).await;
    groups(new.next_but_beats(false).await);
    let ServerMessage::Detached(detached) = old.next_but_beats(true).await else {
        panic!("the old stream is not detached")
    };
    assert_eq!((detached.handle, detached.reason()), (1, Reason::AttachedElsewhere));
    late.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(5, &lease) }]).await;
    let ServerMessage::Detached(detached) = late.next_but_beats(true).await else {
        panic!("the late attachment is not refused")
    };
    assert_eq!((detached.handle, detached.reason()), (5, Reason::AttachedElsewhere));
    new.send(ClientMessage::Detach(v1::DetachLeases { handles: vec![1] })).await;
    let ServerMessage::Detached(detached) = new.next_but_beats(true).await else {
        panic!("the detach is not confirmed")
    };
    assert_eq!((detached.handle, detached.reason()), (1, Reason::Requested));
    assert!(client.holder("a").await.is_some(), "a detached lease lives until it expires");
}

#[tokio::test]
async fn a_stream_is_notified_at_once_if_its_lease_ends() {
    let server = Server::start().await;
    let mut client = server.client();
    let revoked = client.acquire_lease(acquire_request("a", TTL)).await;
    let released = client.acquire_lease(acquire_request("b", TTL)).await;
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &revoked), attachment(2, &released)]).await;
    groups(stream.next_but_beats(false).await);
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: revoked.fencing_token, reason: "test".into() };
    server.admin().force_release(force).await.unwrap();
    let ServerMessage::Lost(lost) = stream.next_but_beats(false).await else { panic!("not lost") };
    assert_eq!((lost.handle, lost.end()), (1, LeaseEnd::Revoked));
    client.release_lease(&released).await;
    let ServerMessage::Lost(lost) = stream.next_but_beats(false).await else { panic!("not lost") };
    assert_eq!((lost.handle, lost.end()), (2, LeaseEnd::Released));
    let successor = client.acquire_lease(acquire_request("a", TTL)).await;
    stream.attach(vec![attachment(1, &revoked)]).await;
    let ServerMessage::Lost(lost) = stream.next_but_beats(false).await else { panic!("an ended lease was attached") };
    assert_eq!((lost.end(), lost.successor_token), (LeaseEnd::Revoked, successor.fencing_token));
}

#[tokio::test]
async fn a_disconnect_revokes_only_leases_that_opted_in_and_are_still_attached() {
    let server = Server::start().await;
    let mut client = server.client();
    let (plain, opted_in, moved) = (
        client.acquire_lease(acquire_request("a", TTL)).await,
        client.acquire_lease(acquire_request("b", TTL)).await,
        client.acquire_lease(acquire_request("c", TTL)).await,
    );
    let opt_in = |handle, lease| v1::LeaseAttachment { release_on_disconnect: true, ..attachment(handle, lease) };
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &plain), opt_in(2, &opted_in), opt_in(3, &moved)]).await;
    groups(stream.next_but_beats(false).await);
    let mut other = Stream::open(server.client()).await;
    other.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(1, &moved) }]).await;
    groups(other.next_but_beats(false).await);
    let mut behind = server.client();
    let waiter = tokio::spawn(async move { behind.acquire_response(waiting_request("b", TTL, TTL)).await });
    until(|| async { server.client().lock_info("b").await.waiters == 1 }).await;
    drop(stream);
    assert_eq!(within(waiter).await.unwrap().previous_end(), LeaseEnd::Revoked);
    assert_eq!(client.holder("a").await.unwrap().fencing_token, plain.fencing_token);
    assert_eq!(client.holder("c").await.unwrap().fencing_token, moved.fencing_token);
}

#[tokio::test]
async fn a_drain_is_no_disconnect() {
    let mut server = Server::start_with(|config| config.drain_timeout = Duration::from_millis(100)).await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let mut events = within(client.watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let mut stream = Stream::open(server.client()).await;
    let opt_in = v1::LeaseAttachment { release_on_disconnect: true, ..attachment(1, &lease) };
    stream.attach(vec![opt_in]).await;
    groups(stream.next_but_beats(false).await);
    server.shut_down();
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Draining(_)));
    within(&mut server.task).await.unwrap();
    let mut seen = Vec::new();
    while let Some(Ok(event)) = within(events.next()).await {
        seen.push(event.kind());
    }
    assert_eq!(seen, [v1::watch_response::Kind::Started], "the lease is not revoked");
}

#[tokio::test]
async fn a_full_stream_refuses_further_leases() {
    let server = Server::start_with(|config| config.limits.leases_per_stream = 2).await;
    let mut client = server.client();
    let mut attachments = Vec::new();
    for handle in 0..3 {
        attachments.push(attachment(handle, &client.acquire_lease(acquire_request(&format!("a/{handle}"), TTL)).await));
    }
    let mut stream = Stream::open(server.client()).await;
    stream.attach(attachments).await;
    let ServerMessage::Detached(detached) = stream.next_but_beats(true).await else {
        panic!("the third lease is not refused")
    };
    assert_eq!((detached.handle, detached.reason()), (2, detached::Reason::StreamFull));
    let [(_, mut handles)] = <[_; 1]>::try_from(groups(stream.next_but_beats(true).await)).unwrap();
    handles.sort_unstable();
    assert_eq!(handles, [0, 1]);
}

#[tokio::test]
async fn an_invalid_message_ends_the_stream_with_its_field() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.acquire_lease(acquire_request("a", TTL)).await;
    let bad_name = v1::LeaseAttachment { lock_name: String::new(), ..attachment(1, &lease) };
    let bad_id = v1::LeaseAttachment { lease_id: "mine".into(), ..attachment(1, &lease) };
    let twice = vec![attachment(1, &lease), attachment(1, &lease)];
    let attach = |leases| Some(ClientMessage::Attach(v1::AttachLeases { leases }));
    let cases = [
        (None, "message"),
        (Some(ClientMessage::Answer(v1::BeatAnswer { beat: 2_000_000 })), "answer.beat"),
        (Some(ClientMessage::Answer(v1::BeatAnswer { beat: 0 })), "answer.beat"),
        (attach(vec![attachment(2, &lease), bad_name]), "attach.leases[1].lock_name"),
        (attach(vec![bad_id]), "attach.leases[0].lease_id"),
        (attach(twice), "handle"),
    ];
    for (message, field) in cases {
        let mut stream = Stream::open(server.client()).await;
        stream.requests.send(v1::KeepAliveRequest { message }).await.unwrap();
        let error = loop {
            match stream.next().await {
                Ok(ServerMessage::Beat(_)) => {}
                other => break other,
            }
        };
        assert_bad_field(error, field);
    }
    assert!(client.holder("a").await.is_some());
}

async fn end_of(mut stream: Stream) -> Status {
    loop {
        if let Err(status) = stream.next().await {
            return status;
        }
    }
}

#[tokio::test]
async fn the_error_for_a_message_with_many_invalid_fields_fits_into_the_headers() {
    let server = Server::start().await;
    let bad = |handle| v1::LeaseAttachment { handle, lease_id: "mine".into(), ..v1::LeaseAttachment::default() };
    let stream = Stream::open(server.client()).await;
    stream.attach((0..2_000).map(bad).collect()).await;
    let status = end_of(stream).await;
    let status = assert_refused(Err::<(), _>(status), Code::InvalidArgument, "INVALID_FIELD");
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields[0].field, "attach.leases[0].lock_name");
    assert!(status.message().contains(" more"), "{}", status.message());
}

#[tokio::test]
async fn a_half_open_stream_renews_nothing_and_its_lease_can_move_to_another() {
    let server = Server::start().await;
    let mut client = server.client();
    let ttl = SHORT;
    let kept = client.acquire_lease(acquire_request("kept", ttl)).await;
    let abandoned = client.acquire_lease(acquire_request("abandoned", ttl)).await;
    let (via, freeze) = freezable_link(server.addr).await;
    let mut old = Stream::open(LockServiceClient::new(channel(via))).await;
    old.attach(vec![attachment(1, &kept), attachment(2, &abandoned)]).await;
    groups(old.next_but_beats(false).await);
    old.answer_for(SHORT / 4, |_| true).await;
    freeze.send(true).unwrap();
    let mut new = Stream::open(server.client()).await;
    new.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(1, &kept) }]).await;
    groups(new.next_but_beats(true).await);
    // The lease that stays on the frozen stream expires, although its connection is open. The one that moved lives on.
    while client.holder("abandoned").await.is_some() {
        new.answer_for(SHORT / 10, |_| true).await;
    }
    new.answer_for(ttl, |_| true).await;
    assert_eq!(client.holder("kept").await.unwrap().fencing_token, kept.fencing_token);
}
