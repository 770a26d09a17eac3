//! Admission: an incarnation of Redis is checked before the first command goes to it.
//!
//! One task runs the checks ([`Admission::run`]), and commands wait for its answer. They run no checks themselves: a
//! command whose caller stalls is not polled, and would hold up all others that wait for the same check.

use super::{Connection, Node, NodeError};
use crate::{domain::ids::Incarnation, sync::Mutex};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    time::Instant,
};

/// How often an incarnation that is not admitted is checked: an operator may have repaired it.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// How often an admitted incarnation is checked again: an operator may have changed it.
const RECHECK_PERIOD: Duration = Duration::from_secs(10);
/// For how long a failed check answers all commands. They came while it ran, so one check is enough for them.
const FAILURE_SHARED: Duration = Duration::from_millis(200);
/// Commands that may wait for a check. More are refused.
const WAITING_MAX: usize = 65_536;

/// What is demanded of an incarnation before it is used.
pub trait Checks {
    /// Why an incarnation is not admitted.
    type Error: Clone + PartialEq + fmt::Display + From<NodeError>;

    /// Checks an incarnation that is not admitted. The error says why it is refused, or why it could not be checked.
    fn check(&self, connection: &Arc<Connection>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether an admitted incarnation still passes. Commands go on meanwhile; if not, the next one waits for a check.
    fn still_pass(&self, connection: &Arc<Connection>) -> impl Future<Output = bool> + Send;
}

/// A command that waits until its incarnation is checked.
#[derive(Debug)]
struct Waiting<E> {
    connection: Arc<Connection>,
    reply: oneshot::Sender<Result<(), E>>,
}

/// A check that failed.
struct Failure<E> {
    at: Instant,
    incarnation: Incarnation,
    why: E,
}

/// Which incarnation is admitted.
pub struct Admission<E> {
    admitted: Mutex<Option<Incarnation>>,
    waiting: mpsc::Sender<Waiting<E>>,
    /// Taken by [`Self::run`].
    queue: Mutex<Option<mpsc::Receiver<Waiting<E>>>>,
    up: watch::Sender<bool>,
}

impl<E> Default for Admission<E> {
    fn default() -> Self {
        let (waiting, queue) = mpsc::channel(WAITING_MAX);
        let up = watch::Sender::new(false);
        Self { admitted: Mutex::new(None), waiting, queue: Mutex::new(Some(queue)), up }
    }
}

impl<E: Clone + PartialEq + fmt::Display + From<NodeError>> Admission<E> {
    /// Whether there is a node with an admitted incarnation, for health.
    pub fn up(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Waits until the incarnation of this connection is admitted or refused. Dropped, or not polled, it holds up
    /// nobody else.
    pub async fn admit(&self, connection: &Arc<Connection>) -> Result<(), E> {
        if self.is_admitted(connection.incarnation()) {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let stopping = || E::from(NodeError::Unavailable("the server is stopping".to_owned()));
        self.waiting.try_send(Waiting { connection: Arc::clone(connection), reply }).map_err(|why| match why {
            TrySendError::Full(_) => {
                NodeError::Unavailable(format!("{WAITING_MAX} commands wait until Redis is known")).into()
            }
            TrySendError::Closed(_) => stopping(),
        })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Checks each new incarnation of the node at once, and those that commands wait for. Keeps `up` current. Never
    /// ends; to be called once.
    pub async fn run(&self, node: &Node, checks: &impl Checks<Error = E>) {
        let Some(mut queue) = self.queue.lock().take() else { return std::future::pending().await };
        let mut node_up = node.up();
        let (mut checked_at, mut failure, mut logged) = (Instant::now(), None, None);
        loop {
            node_up.borrow_and_update();
            if checked_at.elapsed() >= RECHECK_PERIOD {
                self.check_again(node, checks).await;
                checked_at = Instant::now();
            }
            let up = match node.connection(0) {
                Ok(connection) => {
                    let checked = self.check(&connection, checks, &mut failure).await;
                    log_refusal(&checked, &mut logged);
                    checked.is_ok()
                }
                // The node logs that itself.
                Err(_) => false,
            };
            self.up.send_if_modified(|was| std::mem::replace(was, up) != up);
            tokio::select! {
                _ = node_up.changed() => {}
                () = tokio::time::sleep(CHECK_PERIOD) => {}
                // The channel never closes: `self` has a sender.
                Some(Waiting { connection, reply }) = queue.recv() => {
                    if !reply.is_closed() {
                        let _ = reply.send(self.check(&connection, checks, &mut failure).await);
                    }
                }
            }
        }
    }

    fn is_admitted(&self, incarnation: Incarnation) -> bool {
        *self.admitted.lock() == Some(incarnation)
    }

    /// Checks the incarnation of this connection, unless it is admitted or a check of it has just failed.
    async fn check(
        &self,
        connection: &Arc<Connection>,
        checks: &impl Checks<Error = E>,
        failure: &mut Option<Failure<E>>,
    ) -> Result<(), E> {
        let incarnation = connection.incarnation();
        if self.is_admitted(incarnation) {
            return Ok(());
        }
        if let Some(Failure { at, incarnation: failed, why }) = failure
            && *failed == incarnation
            && at.elapsed() < FAILURE_SHARED
        {
            return Err(why.clone());
        }
        let checked = checks.check(connection).await;
        *failure = checked.as_ref().err().map(|why| Failure { at: Instant::now(), incarnation, why: why.clone() });
        if checked.is_ok() {
            *self.admitted.lock() = Some(incarnation);
        }
        checked
    }

    /// Takes the admission back if the incarnation does not pass any more.
    async fn check_again(&self, node: &Node, checks: &impl Checks<Error = E>) {
        let Ok(connection) = node.connection(0) else { return };
        if self.is_admitted(connection.incarnation()) && !checks.still_pass(&connection).await {
            let mut admitted = self.admitted.lock();
            *admitted = admitted.filter(|admitted| *admitted != connection.incarnation());
        }
    }
}

/// Logs once why a Redis that is there is not used, and once that it is: health and all commands depend on it.
fn log_refusal<E: Clone + PartialEq + fmt::Display>(checked: &Result<(), E>, logged: &mut Option<E>) {
    match checked {
        Ok(()) => {
            if logged.take().is_some() {
                tracing::info!("redis is used now");
            }
        }
        Err(why) if logged.as_ref() == Some(why) => {}
        Err(why) => {
            tracing::warn!(%why, "redis is there and not used");
            *logged = Some(why.clone());
        }
    }
}
