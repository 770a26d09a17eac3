//! A worker whose leases are kept alive on a stream, by the generated client: it answers beats, and attaches elsewhere
//! when none came for half a TTL.

use super::{
    caller::{CALL_MAX, Caller},
    holding::Holding,
    outcome::duration,
    taking::Worker,
    work::Name,
};
use crate::clock;
use anyhow::Result;
use fencepost_proto::v1::{
    AttachLeases, BeatAnswer, KeepAliveRequest, KeepAliveResponse, LeaseAttachment, RenewedLeases, detached::Reason,
    keep_alive_request::Message as Say, keep_alive_response::Message as Hear,
};
use fencepost_torture::history::Nanos;
use std::{collections::HashMap, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

/// By which the one lease of a stream is named on it.
const HANDLE: u32 = 1;

pub(super) async fn run(mut worker: Worker) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        if let Some(holding) = worker.take(&terms, wait).await {
            hold(&mut worker, &holding).await?;
        }
        worker.think().await;
    }
    Ok(())
}

struct Aborting(JoinHandle<()>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn hold(worker: &mut Worker, holding: &Holding) -> Result<()> {
    let name = Name::of(holding);
    let keeper = Keeper { caller: worker.caller.clone(), holding: holding.clone() };
    let first = worker.rng.index(worker.caller.servers());
    let keeping = Aborting(tokio::spawn(keeper.keep(first)));
    let for_millis = if worker.rng.chance(30) { worker.rng.millis(1_000, 4_000) } else { worker.rng.millis(50, 600) };
    let bound = clock::now() + clock::nanos(for_millis);
    let is_rude = worker.rng.chance(4);
    while clock::now() < bound && worker.step(&name, || holding.is_valid()).await? {
        let pause = worker.rng.millis(10, 120);
        if holding.over_within(&worker.caller, pause).await {
            break;
        }
        if worker.is_ending() {
            break;
        }
    }
    // From here on it is not renewed any more.
    drop(keeping);
    if is_rude && holding.is_valid() {
        let caller = worker.caller.clone();
        let over = async { while !holding.over_within(&caller, Duration::from_secs(10)).await {} };
        return worker.be_rude(&name, over).await;
    }
    if !holding.is_valid() {
        holding.run_out(&worker.caller);
    }
    worker.give_back(holding).await;
    Ok(())
}

/// Keeps one lease alive.
struct Keeper {
    caller: Caller,
    holding: Holding,
}

/// Why a stream is left.
enum Left {
    Over,
    Elsewhere,
}

impl Keeper {
    async fn keep(self, first: usize) {
        for attempt in 1..=200_u32 {
            let server = first + usize::try_from(attempt).unwrap_or(0);
            if !self.holding.is_valid() {
                return self.holding.run_out(&self.caller);
            }
            if matches!(self.on_stream(server, attempt).await, Left::Over) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn on_stream(&self, server: usize, attempt: u32) -> Left {
        let (say, said) = mpsc::channel(16);
        let lease = &self.holding.lease;
        let attachment = LeaseAttachment {
            handle: HANDLE,
            lock_name: lease.lock_name.clone(),
            lease_id: lease.lease_id.clone(),
            attempt,
            release_on_disconnect: false,
        };
        let attach = Say::Attach(AttachLeases { leases: vec![attachment] });
        // Of what renews it, under the number of its beat; 0 is the attachment itself.
        let mut sent = HashMap::from([(0, clock::now())]);
        if say.send(KeepAliveRequest { message: Some(attach) }).await.is_err() {
            return Left::Elsewhere;
        }
        let mut service = self.caller.service(server);
        let call = service.keep_alive(ReceiverStream::new(said));
        let Ok(Ok(opened)) = timeout(CALL_MAX.min(self.holding.ttl / 2), call).await else { return Left::Elsewhere };
        let mut hear = opened.into_inner();
        loop {
            let silence = (self.holding.ttl / 2).min(clock::until(self.holding.valid_until()));
            match timeout(silence, hear.message()).await {
                Ok(Ok(Some(message))) => {
                    if let Some(left) = self.heard(message, &mut sent, &say).await {
                        return left;
                    }
                }
                Ok(Ok(None) | Err(_)) => return Left::Elsewhere,
                Err(_) if self.holding.is_valid() => return Left::Elsewhere,
                Err(_) => {
                    self.holding.run_out(&self.caller);
                    return Left::Over;
                }
            }
        }
    }

    async fn heard(
        &self,
        message: KeepAliveResponse,
        sent: &mut HashMap<u64, Nanos>,
        say: &mpsc::Sender<KeepAliveRequest>,
    ) -> Option<Left> {
        match message.message? {
            Hear::Beat(beat) => {
                sent.insert(beat.beat, clock::now());
                sent.retain(|number, _| *number == 0 || number + 100 > beat.beat);
                let answer = Say::Answer(BeatAnswer { beat: beat.beat });
                return say.send(KeepAliveRequest { message: Some(answer) }).await.is_err().then_some(Left::Elsewhere);
            }
            Hear::Attached(attached) => self.renewed(sent.get(&0).copied(), &attached.leases),
            Hear::Renewed(renewed) => self.renewed(sent.get(&renewed.beat).copied(), &renewed.leases),
            Hear::Lost(lost) => {
                self.holding.lost(&self.caller, &lost, clock::now());
                return Some(Left::Over);
            }
            Hear::AtRisk(_) => {}
            Hear::Detached(detached) if detached.reason() == Reason::Requested => return Some(Left::Over),
            Hear::Detached(_) | Hear::Draining(_) => return Some(Left::Elsewhere),
        }
        None
    }

    fn renewed(&self, sent: Option<Nanos>, leases: &[RenewedLeases]) {
        // A beat that was not sent on this stream would be an error of the server: C1 to C3 would show what it does.
        let Some(sent) = sent else { return };
        let at = clock::now();
        for renewed in leases.iter().filter(|renewed| renewed.handles.contains(&HANDLE)) {
            self.holding.renewed(&self.caller, sent, at, duration(renewed.ttl));
        }
    }
}
