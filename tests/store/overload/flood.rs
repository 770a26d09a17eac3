//! Acquires at a fixed rate, whatever becomes of those before.

use crate::{Client, support::acquire_request};
use fencepost_proto::v1::{
    BeatAnswer, OperationError, SessionAcquire, SessionRequest, acquire_response::Outcome,
    session_request::Message as ClientMessage, session_response::Message as ServerMessage,
};
use prost::Message as _;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::{Instant, interval},
};
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use tonic::Status;
use tonic_types::StatusExt;

/// Between two bursts of a session.
const TICK: Duration = Duration::from_millis(20);
/// How long the last answers may take.
const LAST_ANSWERS: Duration = Duration::from_secs(3);
/// So long that no lease of the flood is renewed meanwhile. The first renewal of each is written, so that those that a
/// session was granted within seconds would write as much at once.
const TTL: Duration = Duration::from_secs(3_600);

/// What became of the acquires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) offered: u64,
    pub(crate) granted: u64,
    /// With STORE_OVERLOADED, which clients repeat.
    pub(crate) refused: u64,
    /// With other errors, by their reasons.
    pub(crate) failed: BTreeMap<String, u64>,
}

/// Sessions that acquire.
pub(crate) struct Flood {
    counts: Arc<Mutex<Counts>>,
    sessions: JoinSet<()>,
}

impl Flood {
    /// So many acquires in a second, each of a lock of its own, until the end.
    pub(crate) fn begin(clients: Vec<Client>, per_second: u32, end: Instant) -> Self {
        let (counts, mut sessions) = (Arc::<Mutex<Counts>>::default(), JoinSet::new());
        let share =
            per_second * u32::try_from(TICK.as_millis()).unwrap() / 1_000 / u32::try_from(clients.len()).unwrap();
        for (session, client) in clients.into_iter().enumerate() {
            sessions.spawn(flood(session, client, share.max(1), end, counts.clone()));
        }
        Self { counts, sessions }
    }

    /// What became of them, when the last answers have come.
    pub(crate) async fn done(self) -> Counts {
        self.sessions.join_all().await;
        self.counts.lock().unwrap().clone()
    }
}

async fn flood(session: usize, mut client: Client, share: u32, end: Instant, counts: Arc<Mutex<Counts>>) {
    let (requests, outbound) = unbounded_channel();
    let mut responses = client.session(UnboundedReceiverStream::new(outbound)).await.unwrap().into_inner();
    let (mut ticks, mut operation) = (interval(TICK), 0);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                if end + LAST_ANSWERS < Instant::now() {
                    return;
                }
                for _ in 0..if Instant::now() < end { share } else { 0 } {
                    operation += 1;
                    send(&requests, operation, acquire(session, operation));
                }
                counts.lock().unwrap().offered += u64::from(if Instant::now() < end { share } else { 0 });
            }
            Some(response) = responses.next() => match response.unwrap().message.unwrap() {
                ServerMessage::Beat(beat) => send(&requests, 0, ClientMessage::Answer(BeatAnswer { beat: beat.beat })),
                ServerMessage::Acquire(answer) => {
                    assert_eq!(answer.outcome(), Outcome::Acquired, "{answer:?}");
                    counts.lock().unwrap().granted += 1;
                }
                ServerMessage::Error(error) => note_error(&mut counts.lock().unwrap(), &error),
                _ => {}
            },
        }
    }
}

fn send(requests: &UnboundedSender<SessionRequest>, operation: u64, message: ClientMessage) {
    requests.send(SessionRequest { operation, message: Some(message) }).unwrap();
}

fn acquire(session: usize, operation: u64) -> ClientMessage {
    let request = Some(acquire_request(&format!("flood/{session}/{operation}"), TTL));
    let handle = u32::try_from(operation).unwrap();
    ClientMessage::Acquire(SessionAcquire { request, handle, release_on_disconnect: false })
}

fn note_error(counts: &mut Counts, error: &OperationError) {
    let status = Status::with_details(error.code.into(), error.message.clone(), error.encode_to_vec().into());
    let reason = status.get_details_error_info().map_or_else(|| format!("{error:?}"), |info| info.reason);
    if reason == "STORE_OVERLOADED" {
        assert!(status.get_details_retry_info().is_some_and(|retry| retry.retry_delay.is_some()), "{status:?}");
        counts.refused += 1;
    } else {
        *counts.failed.entry(reason).or_default() += 1;
    }
}
