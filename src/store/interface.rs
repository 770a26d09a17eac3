//! The interface of a store.

use super::{Page, StoreError, Timed};
use crate::domain::{
    command::{Command, Outcome},
    ids::Call,
    name::LockName,
};

/// The answer to a command.
pub type Answer = Result<Timed<Outcome>, StoreError>;

/// Carries out commands by the rules of `domain`. What a command causes beyond its answer, a store tells the
/// [`Notices`](super::Notices) it was made with.
///
/// Every command is atomic and may be repeated. A future that is dropped leaves its command done or not done, nothing
/// between. The caller does not know which (*outcome unknown*) and repeats the command, or posts a
/// [`Command::DropCall`]. So does a caller that gets an error, unless the error says that [nothing was
/// done](StoreError::is_nothing_done).
pub trait Store: Send + Sync + 'static {
    /// Carries out a command.
    fn run(&self, name: &LockName, command: Command) -> impl Future<Output = Answer> + Send;

    /// Carries out renewals of kept leases ([`Command::RenewKept`], [`Command::Attach`]), each independent of the
    /// others, and answers in order. Dropped on the way, some are done and some are not.
    fn renew_each(&self, renewals: Vec<(&LockName, Command)>) -> impl Future<Output = Vec<Answer>> + Send;

    /// Has a command carried out whose outcome nobody waits for. Does not block: drop guards call it.
    fn post(&self, name: &LockName, command: Command);

    /// An upper bound on how many requests are queued before that of a call that waits here, from what is known without
    /// asking. `None` if the call is not known to be queued.
    fn ahead(&self, name: &LockName, call: Call) -> Option<u64>;

    /// Lists the locks in use whose names begin with `prefix`, from `from` on ([`Page::next`]), at most `limit`.
    fn list(
        &self,
        prefix: &str,
        from: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Makes sure that events are reported from now on.
    fn watch(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}
