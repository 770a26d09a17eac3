//! The two rounds of reads.

use crate::cli::calls::{show::locks, waiters};
use fencepost_client::{CallError, Client, raw::v1::ListWaitersResponse};
use futures_util::stream::{self, StreamExt, TryStreamExt};

/// How many queues are read at a time.
const READS_MAX: usize = 8;

/// The queues of locks in the order of their names. The second round begins when the first has ended.
pub(super) type Rounds = (Vec<ListWaitersResponse>, Vec<ListWaitersResponse>);

/// Reads all queues with this prefix twice. Who is in no queue of the first round does not matter in the second.
pub(super) async fn read_twice(client: &Client, prefix: &str) -> Result<Rounds, CallError> {
    let listed = locks(client, prefix).await?.into_iter();
    let names: Vec<_> = listed.filter(|lock| lock.waiters > 0).map(|lock| lock.lock_name).collect();
    let first = read(client, &names).await?;
    Ok((first, read(client, &names).await?))
}

async fn read(client: &Client, names: &[String]) -> Result<Vec<ListWaitersResponse>, CallError> {
    let reads = names.iter().map(|name| waiters::all(client, name));
    stream::iter(reads).buffered(READS_MAX).try_collect().await
}
