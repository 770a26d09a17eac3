//! Observing one lock: each of its states, or the newest one of several.

use crate::bearer::Connection;
use crate::client::Client;
use crate::clock::Moment;
use crate::core::Core;
use crate::error::CallError;
use crate::info::LockInfo;
use crate::servers::Lane;
use crate::v1;
use std::time::Duration;
use tokio::sync::watch;
use tonic::{Status, Streaming};
use v1::lock_service_client::LockServiceClient;

/// What was last told: a state, or why there will be no other one.
type Told = Option<Result<LockInfo, CallError>>;

/// The states of one lock ([`Client::observe`]). Dropped, it ends the stream.
#[derive(Debug)]
pub struct Observing {
    told: watch::Receiver<Told>,
}

impl Observing {
    /// The next state: at first the one that the lock has now, then each that it has after a grant, a conversion, a
    /// description or the end of a lease. Who is slow gets the newest one, and misses those between. Cancel-safe.
    ///
    /// It waits over outages of the servers, and while they have no room for its stream. Then it tells the state that
    /// the lock has, which may be the same as before. An error is final: the lock cannot be observed.
    pub async fn next(&mut self) -> Result<LockInfo, CallError> {
        let changed = self.told.changed().await;
        match (&*self.told.borrow_and_update(), changed) {
            (Some(Ok(lock)), Ok(())) => Ok(lock.clone()),
            (Some(Err(error)), _) => Err(error.clone()),
            _ => Err(CallError::unsent(Status::cancelled("the runtime of the client has ended"))),
        }
    }
}

impl Client {
    /// Observes a lock: who holds it, what they say of themselves, and that nobody holds it. For those who follow the
    /// leader of an election, and for dashboards; whether to write is decided by a comparison of tokens in the store.
    ///
    /// ```no_run
    /// # async fn example(client: fencepost_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut leader = client.observe("leader/scheduler");
    /// loop {
    ///     let lock = leader.next().await?;
    ///     println!("{:?}", lock.holders.first().and_then(|holder| holder.metadata.get("address")));
    /// }
    /// # }
    /// ```
    pub fn observe(&self, lock_name: impl Into<String>) -> Observing {
        let (tell, told) = watch::channel(None);
        let core = self.shared.core.clone();
        let request = v1::ObserveRequest { lock_name: lock_name.into() };
        self.shared.core.spawn(async move {
            tokio::select! {
                () = tell.closed() => {}
                error = observe(&core, &request, &tell) => {
                    tell.send_replace(Some(Err(error)));
                }
            }
        });
        Observing { told }
    }
}

/// Tells each state, over all streams, until an error that no later stream mends.
async fn observe(core: &Core, request: &v1::ObserveRequest, tell: &watch::Sender<Told>) -> CallError {
    let for_ever = Moment::now().plus(Duration::MAX);
    let mut retries = core.retries(for_ever);
    loop {
        let channel = core.servers.channel(core.servers.preferred(), Lane::Prompt);
        let opened = open(core, channel.connection.clone(), request.clone()).await;
        let error = match core.answered(&channel, opened) {
            Ok(mut states) => loop {
                match states.message().await {
                    Ok(Some(answer)) => {
                        retries = core.retries(for_ever);
                        tell.send_replace(Some(Ok(answer.lock.unwrap_or_default().into())));
                    }
                    Ok(None) => break CallError::new(Status::unavailable("the stream ended")),
                    Err(status) => break ended_with(status),
                }
            },
            Err(error) => error.of_opening(),
        };
        if let Err(error) = retries.failed(channel.server, error).await {
            return error;
        }
    }
}

/// Opens a stream. The server answers when it has begun to observe.
pub(crate) async fn open(
    core: &Core,
    channel: Connection,
    request: v1::ObserveRequest,
) -> Result<Streaming<v1::ObserveResponse>, Status> {
    core.opened(LockServiceClient::new(channel).observe(request)).await
}

/// Why an open stream ended. The next one has new credentials, if there are some.
fn ended_with(status: Status) -> CallError {
    let error = CallError::new(status);
    if error.reason().as_deref() == Some("CREDENTIALS_EXPIRED") {
        return CallError::new(Status::unavailable(error.message()));
    }
    error
}
