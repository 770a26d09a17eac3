//! What the holder of a lock says of itself while it holds it.

use crate::calls::Calls;
use crate::clock::Moment;
use crate::error::CallError;
use crate::held::Held;
use crate::status::{LockLost, Loss};
use crate::v1::{self, describe_response::Outcome};
use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

/// Replaces what others see of a held lock: all of its metadata, and its label if one is given. Await it to send it.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Describe {
    held: Held,
    metadata: BTreeMap<String, String>,
    holder: Option<String>,
}

/// Why a lock was not described.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// The lock is lost.
    #[error("{0}")]
    Lost(LockLost),
    /// Another process that has the lease has described it more often than this one, and its description stays. The
    /// next one of this process replaces that.
    #[error("another process has described {name} since (description {number})")]
    Outdated {
        /// The lock's name.
        name: String,
        /// The number of the description that others see.
        number: u64,
    },
    /// The call failed. If its outcome is unknown, describe again.
    #[error("{0}")]
    Call(#[from] CallError),
}

impl Held {
    /// Describes the lock to others, in place of what its request said: a leader tells its address so, and a job its
    /// progress. Those who [`observe`](crate::Client::observe) the lock see it at once.
    ///
    /// Of several descriptions the last one that was awaited stays, whatever the network does: each waits for the one
    /// before it.
    ///
    /// ```no_run
    /// # async fn example(lock: fencepost_client::Held) -> Result<(), Box<dyn std::error::Error>> {
    /// lock.describe().metadata("address", "10.0.0.7:8080").await?;
    /// # Ok(()) }
    /// ```
    pub fn describe(&self) -> Describe {
        Describe { held: self.clone(), metadata: BTreeMap::new(), holder: None }
    }
}

impl Describe {
    /// Metadata shown with the holder. Call it once for each key; keys that are not named are removed.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// The label that others see as the holder. Default: it stays.
    pub fn holder(mut self, label: impl Into<String>) -> Self {
        self.holder = Some(label.into());
        self
    }

    /// Returns the number of the description.
    async fn send(self) -> Result<u64, DescribeError> {
        let state = &self.held.state;
        // In the order of their numbers: a copy that is late changes nothing.
        let mut described = state.described.lock().await;
        if let Some(lost) = state.lost(Moment::now()) {
            return Err(DescribeError::Lost(lost));
        }
        // Whatever becomes of it, the next one has another number.
        let number = described.next();
        if self.held.core.servers.count() == 0 {
            // A lock for unit tests, which nobody sees.
            return Ok(number);
        }
        let request = v1::DescribeRequest {
            lock_name: state.name.clone(),
            lease_id: state.lease_id.clone(),
            metadata: self.metadata.into_iter().collect(),
            holder: self.holder,
            number,
        };
        let calls = Calls { core: self.held.core.clone() };
        // What the call would tell after the end of the lease is no news.
        let answer = tokio::select! {
            biased;
            lost = self.held.lost() => return Err(DescribeError::Lost(lost)),
            answer = calls.describe(request) => answer?,
        };
        match answer.outcome() {
            Outcome::Described => {
                described.seen(answer.number);
                Ok(answer.number)
            }
            Outcome::Outdated => {
                described.seen(answer.number);
                Err(DescribeError::Outdated { name: state.name.clone(), number: answer.number })
            }
            Outcome::Lost | Outcome::Unspecified => {
                let loss = Loss::from_server(answer.end(), answer.successor_token);
                state.end(loss);
                Err(DescribeError::Lost(state.lock_lost(loss)))
            }
        }
    }
}

impl IntoFuture for Describe {
    type Output = Result<u64, DescribeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// The number of the last description of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Described {
    /// Another process may have described it.
    Unknown,
    Last(u64),
}

impl Described {
    /// The number of the next one. 0 stands for one more than the server has.
    fn next(&mut self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Last(number) => {
                *number = number.saturating_add(1);
                *number
            }
        }
    }

    fn seen(&mut self, number: u64) {
        *self = Self::Last(number);
    }
}
