//! Keeping leases alive on a stream.

use crate::{
    link::freezable_link,
    stream::{Stream, attachment},
    support::{Lock, Server, assert_bad_field, assert_refused, channel, read, until, waiting_wish, wish, within},
};
use fencepost_proto::v1::{
    self, LeaseEnd, detached, keep_alive_request::Message as Say, keep_alive_response::Message as Hear,
    lock_service_client::LockServiceClient,
};
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const TTL: Duration = Duration::from_secs(30);
/// Long enough that on a busy machine an answer may come more than a second late.
const SHORT: Duration = Duration::from_secs(3);

fn groups(message: Hear) -> Vec<(Duration, Vec<u32>)> {
    let groups = match message {
        Hear::Attached(attached) => attached.leases,
        Hear::Renewed(renewed) => renewed.leases,
        other => panic!("{other:?}"),
    };
    groups.into_iter().map(|group| (read(group.ttl), group.handles)).collect()
}

#[tokio::test]
async fn answered_beats_keep_a_lease_and_unanswered_ones_do_not() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.take(wish("a", SHORT)).await;
    let mut stream = Stream::open(server.client()).await;
    assert!(matches!(stream.next().await, Ok(Hear::Beat(v1::Beat { beat: 1, .. }))), "the first beat comes at once");
    stream.attach(vec![attachment(7, &lease)]).await;
    assert_eq!(groups(stream.next_but_beats(false).await), [(SHORT, vec![7])]);
    let renewed = stream.answer_for(SHORT * 5 / 2, |_| true).await;
    assert!((2..=8).contains(&renewed), "renewed once a third of the TTL is used up: {renewed} times in 2.5 TTLs");
    let current = client.holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token, "a renewal does not change the token");
    // The client is paused from here on, as far as the server can see: connected, and silent.
    let Hear::Lost(lost) = stream.next_but_beats(false).await else { panic!("lost is told") };
    assert_eq!((lost.handle, lost.end()), (7, LeaseEnd::Expired));
    assert_eq!(client.holder("a").await, None);
}

#[tokio::test]
async fn beats_that_get_lost_do_no_harm_while_some_are_answered() {
    let server = Server::start().await;
    let mut client = server.client();
    let ttl = SHORT * 4 / 3;
    let lease = client.take(wish("a", ttl)).await;
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    groups(stream.next_but_beats(false).await);
    let renewed = stream.answer_for(ttl * 5 / 2, |beat| beat % 3 == 0).await;
    assert!(renewed >= 2, "{renewed}");
    assert!(client.holder("a").await.is_some());
}

#[tokio::test]
async fn a_stream_that_ends_changes_nothing_and_the_lease_is_attached_elsewhere() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.take(wish("a", SHORT)).await;
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
async fn the_newest_attachment_wins_and_an_old_one_that_turns_up_late_loses() {
    use detached::Reason;
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.take(wish("a", TTL)).await;
    let (mut old, mut new, mut late) =
        (Stream::open(server.client()).await, Stream::open(server.client()).await, Stream::open(server.client()).await);
    old.attach(vec![attachment(1, &lease)]).await;
    groups(old.next_but_beats(false).await);
    new.attach(vec![v1::LeaseAttachment { attempt: 3, ..attachment(1, &lease) }]).await;
    groups(new.next_but_beats(false).await);
    let Hear::Detached(told) = old.next_but_beats(true).await else { panic!("the old stream is told") };
    assert_eq!((told.handle, told.reason()), (1, Reason::AttachedElsewhere));
    late.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(5, &lease) }]).await;
    let Hear::Detached(told) = late.next_but_beats(true).await else { panic!("the late one is refused") };
    assert_eq!((told.handle, told.reason()), (5, Reason::AttachedElsewhere));
    new.say(Say::Detach(v1::DetachLeases { handles: vec![1] })).await;
    let Hear::Detached(told) = new.next_but_beats(true).await else { panic!("a detachment is confirmed") };
    assert_eq!((told.handle, told.reason()), (1, Reason::Requested));
    assert!(client.holder("a").await.is_some(), "a lease that is detached goes on until its time");
}

#[tokio::test]
async fn what_happens_to_a_lease_is_told_at_once() {
    let server = Server::start().await;
    let mut client = server.client();
    let revoked = client.take(wish("a", TTL)).await;
    let released = client.take(wish("b", TTL)).await;
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &revoked), attachment(2, &released)]).await;
    groups(stream.next_but_beats(false).await);
    let force =
        v1::ForceReleaseRequest { lock_name: "a".into(), expected_token: revoked.fencing_token, reason: "test".into() };
    server.admin().force_release(force).await.unwrap();
    let Hear::Lost(lost) = stream.next_but_beats(false).await else { panic!("lost is told") };
    assert_eq!((lost.handle, lost.end()), (1, LeaseEnd::Revoked));
    client.give_back(&released).await;
    let Hear::Lost(lost) = stream.next_but_beats(false).await else { panic!("lost is told") };
    assert_eq!((lost.handle, lost.end()), (2, LeaseEnd::Released));
    let successor = client.take(wish("a", TTL)).await;
    stream.attach(vec![attachment(1, &revoked)]).await;
    let Hear::Lost(lost) = stream.next_but_beats(false).await else { panic!("a lease that ended is not attached") };
    assert_eq!((lost.end(), lost.successor_token), (LeaseEnd::Revoked, successor.fencing_token));
}

#[tokio::test]
async fn released_on_disconnect_only_if_asked_for_and_void_once_attached_elsewhere() {
    let server = Server::start().await;
    let mut client = server.client();
    let (plain, opted, moved) =
        (client.take(wish("a", TTL)).await, client.take(wish("b", TTL)).await, client.take(wish("c", TTL)).await);
    let opt_in = |handle, lease| v1::LeaseAttachment { release_on_disconnect: true, ..attachment(handle, lease) };
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &plain), opt_in(2, &opted), opt_in(3, &moved)]).await;
    groups(stream.next_but_beats(false).await);
    let mut other = Stream::open(server.client()).await;
    other.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(1, &moved) }]).await;
    groups(other.next_but_beats(false).await);
    let mut behind = server.client();
    let waiter = tokio::spawn(async move { behind.ask(waiting_wish("b", TTL, TTL)).await });
    until(|| async { server.client().look("b").await.waiters == 1 }).await;
    drop(stream);
    assert_eq!(within(waiter).await.unwrap().previous_end(), LeaseEnd::Revoked);
    assert_eq!(client.holder("a").await.unwrap().fencing_token, plain.fencing_token);
    assert_eq!(client.holder("c").await.unwrap().fencing_token, moved.fencing_token);
}

#[tokio::test]
async fn a_drain_does_not_count_as_a_disconnect() {
    let mut server = Server::start_with(|config| config.drain_timeout = Duration::from_millis(100)).await;
    let mut client = server.client();
    let lease = client.take(wish("a", TTL)).await;
    let mut events = within(client.watch(v1::WatchRequest::default())).await.unwrap().into_inner();
    let mut stream = Stream::open(server.client()).await;
    let opt_in = v1::LeaseAttachment { release_on_disconnect: true, ..attachment(1, &lease) };
    stream.attach(vec![opt_in]).await;
    groups(stream.next_but_beats(false).await);
    server.shut_down();
    assert!(matches!(stream.next_but_beats(true).await, Hear::Draining(_)));
    within(&mut server.task).await.unwrap();
    let mut seen = Vec::new();
    while let Some(Ok(event)) = within(events.next()).await {
        seen.push(event.kind());
    }
    assert_eq!(seen, [v1::watch_response::Kind::Started], "nothing was taken from the holder");
}

#[tokio::test]
async fn a_stream_that_is_full_says_so_for_the_lease_that_does_not_fit() {
    let server = Server::start_with(|config| config.limits.leases_per_stream = 2).await;
    let mut client = server.client();
    let mut attachments = Vec::new();
    for handle in 0..3 {
        attachments.push(attachment(handle, &client.take(wish(&format!("a/{handle}"), TTL)).await));
    }
    let mut stream = Stream::open(server.client()).await;
    stream.attach(attachments).await;
    let Hear::Detached(told) = stream.next_but_beats(true).await else { panic!("the third does not fit") };
    assert_eq!((told.handle, told.reason()), (2, detached::Reason::StreamFull));
    let [(_, mut handles)] = <[_; 1]>::try_from(groups(stream.next_but_beats(true).await)).unwrap();
    handles.sort_unstable();
    assert_eq!(handles, [0, 1]);
}

#[tokio::test]
async fn messages_that_make_no_sense_end_the_stream_with_the_field_and_the_rule() {
    let server = Server::start().await;
    let mut client = server.client();
    let lease = client.take(wish("a", TTL)).await;
    let bad_name = v1::LeaseAttachment { lock_name: String::new(), ..attachment(1, &lease) };
    let bad_id = v1::LeaseAttachment { lease_id: "mine".into(), ..attachment(1, &lease) };
    let twice = vec![attachment(1, &lease), attachment(1, &lease)];
    let attach = |leases| Some(Say::Attach(v1::AttachLeases { leases }));
    let cases = [
        (None, "message"),
        (Some(Say::Answer(v1::BeatAnswer { beat: 2_000_000 })), "answer.beat"),
        (Some(Say::Answer(v1::BeatAnswer { beat: 0 })), "answer.beat"),
        (attach(vec![attachment(2, &lease), bad_name]), "attach.leases[1].lock_name"),
        (attach(vec![bad_id]), "attach.leases[0].lease_id"),
        (attach(twice), "handle"),
    ];
    for (message, field) in cases {
        let mut stream = Stream::open(server.client()).await;
        stream.say.send(v1::KeepAliveRequest { message }).await.unwrap();
        let error = loop {
            match stream.next().await {
                Ok(Hear::Beat(_)) => {}
                other => break other,
            }
        };
        assert_bad_field(error, field);
    }
    assert!(client.holder("a").await.is_some());
}

async fn until_it_ends(mut stream: Stream) -> Status {
    loop {
        if let Err(status) = stream.next().await {
            return status;
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_long_message_fits_into_the_headers_of_the_answer() {
    let server = Server::start().await;
    let bad = |handle| v1::LeaseAttachment { handle, lease_id: "mine".into(), ..v1::LeaseAttachment::default() };
    let stream = Stream::open(server.client()).await;
    stream.attach((0..2_000).map(bad).collect()).await;
    let status = until_it_ends(stream).await;
    let status = assert_refused(Err::<(), _>(status), Code::InvalidArgument, "INVALID_FIELD");
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields[0].field, "attach.leases[0].lock_name");
    assert!(status.message().contains(" more"), "{}", status.message());
}

#[tokio::test]
async fn a_half_open_stream_renews_nothing_and_the_lease_moves_to_another() {
    let server = Server::start().await;
    let mut client = server.client();
    let ttl = SHORT;
    let kept = client.take(wish("kept", ttl)).await;
    let abandoned = client.take(wish("abandoned", ttl)).await;
    let (via, freeze) = freezable_link(server.addr).await;
    let mut old = Stream::open(LockServiceClient::new(channel(via))).await;
    old.attach(vec![attachment(1, &kept), attachment(2, &abandoned)]).await;
    groups(old.next_but_beats(false).await);
    old.answer_for(SHORT / 4, |_| true).await;
    freeze.send(true).unwrap();
    let mut new = Stream::open(server.client()).await;
    new.attach(vec![v1::LeaseAttachment { attempt: 2, ..attachment(1, &kept) }]).await;
    groups(new.next_but_beats(true).await);
    // The lease that was left on the frozen stream ends though its connection stands; the one that moved lives on.
    while client.holder("abandoned").await.is_some() {
        new.answer_for(SHORT / 10, |_| true).await;
    }
    new.answer_for(ttl, |_| true).await;
    assert_eq!(client.holder("kept").await.unwrap().fencing_token, kept.fencing_token);
}
