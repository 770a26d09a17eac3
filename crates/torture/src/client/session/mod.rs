//! A client whose workers share one session with each server: what they want is under way on it all at once, what they
//! hold is kept alive by the beats that its read loop answers, and what a session took with it is repeated, and
//! attached, on another.

mod calls;
mod keeping;
mod messages;
mod stream;

pub(super) use messages::Kept;

use super::{holding::Holding, taking::Worker, work::Name};
use crate::{clock, journal};
use anyhow::Result;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use keeping::Keeper;
use messages::Numbers;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use stream::Stream;
use tonic::transport::Channel;

/// The sessions of a process, one with each server.
pub(super) struct Sessions {
    channels: Vec<Channel>,
    streams: Vec<Mutex<Option<Arc<Stream>>>>,
    handles: Numbers,
}

impl Sessions {
    pub(super) fn new(channels: Vec<Channel>) -> Self {
        let streams = channels.iter().map(|_| Mutex::default()).collect();
        Self { channels, streams, handles: Numbers::default() }
    }

    /// The session with this server: a new one where there is none, or one that takes nothing new.
    fn with(&self, server: usize) -> Arc<Stream> {
        let server = server % self.channels.len();
        let mut slot = self.streams[server].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = slot.as_ref().filter(|stream| stream.takes_more()) {
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
            // A session may end at any time, whoever else is at something on it.
            worker.caller.journal.note(journal::moment("session-ended", terms.lock.clone()));
            let server = worker.rng.index(worker.caller.servers());
            sessions.with(server).close();
        }
        if let Some(holding) = worker.take(&terms, wait).await {
            hold(&mut worker, &holding, &sessions).await?;
        }
        worker.think().await;
    }
    Ok(())
}

async fn hold(worker: &mut Worker, holding: &Holding, sessions: &Arc<Sessions>) -> Result<()> {
    let name = Name::of(holding);
    let keeping = Keeper::of(worker.caller.clone(), Arc::clone(sessions), holding.clone()).start();
    let long = if worker.rng.chance(20) { worker.rng.millis(1_000, 4_000) } else { worker.rng.millis(0, 500) };
    let bound = clock::now() + clock::nanos(long);
    let is_rude = worker.rng.chance(4);
    while worker.step(&name, || holding.is_valid()).await? && clock::now() < bound && !worker.is_ending() {
        if worker.rng.chance(15) {
            renew(worker, holding).await;
        }
        let pause = worker.rng.millis(5, 100);
        if holding.over_within(&worker.caller, pause).await {
            break;
        }
    }
    if is_rude && holding.is_valid() {
        // From here on it is not renewed any more.
        drop(keeping);
        let caller = worker.caller.clone();
        let over = async { while !holding.over_within(&caller, Duration::from_secs(10)).await {} };
        return worker.be_rude(&name, over).await;
    }
    if !holding.is_valid() {
        holding.run_out(&worker.caller);
    }
    // Given back while it is attached still, or right after it was.
    let keeping = worker.rng.chance(70).then_some(keeping);
    worker.give_back(holding).await;
    drop(keeping);
    Ok(())
}

/// Beside the beats, which do the same.
async fn renew(worker: &mut Worker, holding: &Holding) {
    let server = worker.rng.index(worker.caller.servers());
    match worker.caller.renew(&holding.lease, server).await {
        Some(Ok(valid_until)) => holding.extend(valid_until),
        Some(Err(lost)) => holding.lose(&worker.caller, lost),
        None => {}
    }
}

/// Writes down what no server may say on a session, whatever befalls it. The history cannot be made then.
fn wrong(what: &str) -> ! {
    eprintln!("on a session: {what}");
    std::process::exit(3)
}
