//! A client whose workers share one session with each server. All operations are in flight at once, leases are kept
//! alive by beats that the read loop answers, and after the end of a session its operations are retried, and its leases
//! attached, on another.

mod calls;
mod keeper;
mod messages;
mod stream;

pub(super) use messages::Attachment;

use super::{held_lease::HeldLease, work::GrantRef, worker::Worker};
use crate::{clock, journal};
use anyhow::Result;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use keeper::Keeper;
use messages::Handles;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use stream::Stream;
use tonic::transport::Channel;

/// The sessions of a process, one for each server.
pub(super) struct Sessions {
    channels: Vec<Channel>,
    streams: Vec<Mutex<Option<Arc<Stream>>>>,
    handles: Handles,
}

impl Sessions {
    pub(super) fn new(channels: Vec<Channel>) -> Self {
        let streams = channels.iter().map(|_| Mutex::default()).collect();
        Self { channels, streams, handles: Handles::default() }
    }

    /// The session with this server; a new one if there is none, or if it accepts nothing new.
    fn stream_to(&self, server: usize) -> Arc<Stream> {
        let server = server % self.channels.len();
        let mut slot = self.streams[server].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = slot.as_ref().filter(|stream| stream.accepts_operations()) {
            return Arc::clone(stream);
        }
        let service = LockServiceClient::new(self.channels[server].clone());
        let stream = Stream::open(service, server, self.handles.clone());
        *slot = Some(Arc::clone(&stream));
        stream
    }
}

pub(super) async fn run(mut worker: Worker, sessions: Arc<Sessions>) -> Result<()> {
    while !worker.is_ending() {
        let (terms, wait) = worker.choose();
        if worker.rng.chance(1) {
            // Sessions may end at any time, whatever other workers use them for.
            worker.caller.journal.record(journal::instant_fault("session-ended", terms.lock.clone()));
            let server = worker.rng.index(worker.caller.servers());
            sessions.stream_to(server).close();
        }
        if let Some(held) = worker.acquire(&terms, wait).await {
            hold(&mut worker, &held, &sessions).await?;
        }
        worker.think().await;
    }
    Ok(())
}

async fn hold(worker: &mut Worker, held: &HeldLease, sessions: &Arc<Sessions>) -> Result<()> {
    let mut grant_ref = GrantRef::of(held);
    let keep_alive = Keeper::of(worker.caller.clone(), Arc::clone(sessions), held.clone()).start();
    let long = if worker.rng.chance(20) { worker.rng.millis(1_000, 4_000) } else { worker.rng.millis(0, 500) };
    let bound = clock::now() + clock::nanos(long);
    let steps_late = worker.is_to_be_late(&grant_ref);
    while worker.step(&grant_ref, || held.is_valid()).await? && clock::now() < bound && !worker.is_ending() {
        if worker.rng.chance(15) {
            renew(worker, held).await;
        }
        grant_ref = worker.convert_sometimes(held).await.unwrap_or(grant_ref);
        let pause = worker.rng.millis(5, 100);
        if held.ended_within(&worker.caller, pause).await {
            break;
        }
    }
    if steps_late && held.is_valid() {
        // No renewals from here on.
        drop(keep_alive);
        let caller = worker.caller.clone();
        let over = async { while !held.ended_within(&caller, Duration::from_secs(10)).await {} };
        return worker.step_late(&grant_ref, over).await;
    }
    if !held.is_valid() {
        held.expire(&worker.caller);
    }
    // Released while it is still attached, or right after it was detached.
    let keep_alive = worker.rng.chance(70).then_some(keep_alive);
    worker.release(held).await;
    drop(keep_alive);
    Ok(())
}

/// In addition to the beats.
async fn renew(worker: &mut Worker, held: &HeldLease) {
    let server = worker.rng.index(worker.caller.servers());
    match worker.caller.renew(held, server).await {
        Some(Ok(valid_until)) => held.extend(valid_until),
        Some(Err(lost)) => held.lose(&worker.caller, lost),
        None => {}
    }
}

/// Ends the process on an answer that no server may give. The history is useless then.
fn protocol_violation(message: &str) -> ! {
    eprintln!("on a session: {message}");
    std::process::exit(3)
}
