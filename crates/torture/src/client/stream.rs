//! A worker whose leases are kept alive on a stream by the generated client: it answers beats, and moves to another
//! server after half a TTL of silence.

use super::{
    caller::{CALL_MAX, Caller},
    held_lease::HeldLease,
    outcome::duration,
    work::GrantRef,
    worker::Worker,
};
use crate::clock;
use anyhow::Result;
use fencepost_proto::v1::{
    AttachLeases, BeatAnswer, KeepAliveRequest, KeepAliveResponse, LeaseAttachment, RenewedLeases, detached::Reason,
    keep_alive_request::Message as ClientMessage, keep_alive_response::Message as ServerMessage,
};
use fencepost_torture::history::Nanos;
use std::{collections::HashMap, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

/// The handle of the stream's only lease.
const HANDLE: u32 = 1;

pub(super) async fn run(mut worker: Worker) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        if let Some(held) = worker.acquire(&terms, wait).await {
            hold(&mut worker, &held).await?;
        }
        worker.think().await;
    }
    Ok(())
}

struct KeepAliveTask(JoinHandle<()>);

impl Drop for KeepAliveTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn hold(worker: &mut Worker, held: &HeldLease) -> Result<()> {
    let mut grant_ref = GrantRef::of(held);
    let keeper = Keeper { caller: worker.caller.clone(), held: held.clone() };
    let first = worker.rng.index(worker.caller.servers());
    let keep_alive = KeepAliveTask(tokio::spawn(keeper.keep(first)));
    let for_millis = if worker.rng.chance(30) { worker.rng.millis(1_000, 4_000) } else { worker.rng.millis(50, 600) };
    let bound = clock::now() + clock::nanos(for_millis);
    let steps_late = worker.is_to_be_late(&grant_ref);
    while clock::now() < bound && worker.step(&grant_ref, || held.is_valid()).await? {
        grant_ref = worker.convert_sometimes(held).await.unwrap_or(grant_ref);
        let pause = worker.rng.millis(10, 120);
        if held.ended_within(&worker.caller, pause).await {
            break;
        }
        if worker.is_ending() {
            break;
        }
    }
    // No renewals from here on.
    drop(keep_alive);
    if steps_late && held.is_valid() {
        let caller = worker.caller.clone();
        let over = async { while !held.ended_within(&caller, Duration::from_secs(10)).await {} };
        return worker.step_late(&grant_ref, over).await;
    }
    if !held.is_valid() {
        held.expire(&worker.caller);
    }
    worker.release(held).await;
    Ok(())
}

/// Keeps one lease alive.
struct Keeper {
    caller: Caller,
    held: HeldLease,
}

/// Why a lease leaves a stream.
enum StreamEnd {
    LeaseOver,
    Reattach,
}

impl Keeper {
    async fn keep(self, first: usize) {
        for attempt in 1..=200_u32 {
            let server = first + usize::try_from(attempt).unwrap_or(0);
            if !self.held.is_valid() {
                return self.held.expire(&self.caller);
            }
            if matches!(self.on_stream(server, attempt).await, StreamEnd::LeaseOver) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn on_stream(&self, server: usize, attempt: u32) -> StreamEnd {
        let (outgoing, requests) = mpsc::channel(16);
        let lease = &self.held.lease;
        let attachment = LeaseAttachment {
            handle: HANDLE,
            lock_name: lease.lock_name.clone(),
            lease_id: lease.lease_id.clone(),
            attempt,
            release_on_disconnect: false,
        };
        let attach = ClientMessage::Attach(AttachLeases { leases: vec![attachment] });
        // When each renewal was sent, by the number of its beat; 0 is the attachment.
        let mut sent = HashMap::from([(0, clock::now())]);
        if outgoing.send(KeepAliveRequest { message: Some(attach) }).await.is_err() {
            return StreamEnd::Reattach;
        }
        let mut service = self.caller.service(server);
        let call = service.keep_alive(ReceiverStream::new(requests));
        let Ok(Ok(opened)) = timeout(CALL_MAX.min(self.held.ttl / 2), call).await else { return StreamEnd::Reattach };
        let mut incoming = opened.into_inner();
        loop {
            let silence = (self.held.ttl / 2).min(clock::until(self.held.valid_until()));
            match timeout(silence, incoming.message()).await {
                Ok(Ok(Some(message))) => {
                    if let Some(end) = self.receive(message, &mut sent, &outgoing).await {
                        return end;
                    }
                }
                Ok(Ok(None) | Err(_)) => return StreamEnd::Reattach,
                Err(_) if self.held.is_valid() => return StreamEnd::Reattach,
                Err(_) => {
                    self.held.expire(&self.caller);
                    return StreamEnd::LeaseOver;
                }
            }
        }
    }

    async fn receive(
        &self,
        message: KeepAliveResponse,
        sent: &mut HashMap<u64, Nanos>,
        outgoing: &mpsc::Sender<KeepAliveRequest>,
    ) -> Option<StreamEnd> {
        match message.message? {
            ServerMessage::Beat(beat) => {
                sent.insert(beat.beat, clock::now());
                sent.retain(|number, _| *number == 0 || number + 100 > beat.beat);
                let answer = ClientMessage::Answer(BeatAnswer { beat: beat.beat });
                return outgoing
                    .send(KeepAliveRequest { message: Some(answer) })
                    .await
                    .is_err()
                    .then_some(StreamEnd::Reattach);
            }
            ServerMessage::Attached(attached) => self.renewed(sent.get(&0).copied(), &attached.leases),
            ServerMessage::Renewed(renewed) => self.renewed(sent.get(&renewed.beat).copied(), &renewed.leases),
            ServerMessage::Lost(lost) => {
                self.held.lost(&self.caller, &lost, clock::now());
                return Some(StreamEnd::LeaseOver);
            }
            // No lease asks for the latter.
            ServerMessage::AtRisk(_) | ServerMessage::Wanted(_) => {}
            ServerMessage::Detached(detached) if detached.reason() == Reason::Requested => {
                return Some(StreamEnd::LeaseOver);
            }
            ServerMessage::Detached(_) | ServerMessage::Draining(_) => return Some(StreamEnd::Reattach),
        }
        None
    }

    fn renewed(&self, sent: Option<Nanos>, leases: &[RenewedLeases]) {
        // A beat that was not sent on this stream is a bug of the server: C1 to C3 show its effect.
        let Some(sent) = sent else { return };
        let at = clock::now();
        for renewed in leases.iter().filter(|renewed| renewed.handles.contains(&HANDLE)) {
            self.held.renewed(&self.caller, sent, at, duration(renewed.ttl));
        }
    }
}
