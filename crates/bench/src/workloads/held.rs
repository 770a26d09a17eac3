//! Locks that are held during a measurement: the cost of a command must not grow with their number.

use super::Run;
use crate::{
    caller::{Failure, connect},
    plan::Via,
    testbed::Testbed,
};
use anyhow::{Result, bail};
use std::time::Duration;
use tokio::task::JoinSet;

/// They are not renewed.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// The locks of one session: few enough for it to carry. The session ends afterwards.
const PER_SESSION: usize = 50_000;
/// Acquires in flight.
const ACQUIRERS: usize = 128;

/// Acquires the locks and leaves them to their TTL.
pub(crate) async fn acquire(run: Run<'_>, testbed: &Testbed) -> Result<()> {
    let held = run.plan.held;
    if held > 0 {
        eprintln!("{}: acquiring {held} locks", run.label);
    }
    for from in (0..held).step_by(PER_SESSION) {
        let caller = connect(&testbed.servers, 1, Via::Session).await?.remove(0);
        let mut tasks = JoinSet::new();
        for acquirer in 0..ACQUIRERS {
            let (mut caller, prefix) = (caller.clone(), format!("{}held/", run.prefix));
            tasks.spawn(async move {
                for number in (from + acquirer..held.min(from + PER_SESSION)).step_by(ACQUIRERS) {
                    caller.acquire(&format!("{prefix}{number}"), TTL, Duration::ZERO).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(taken) = tasks.join_next().await {
            if let Err(failure) = taken? {
                bail!("{}", failure.0);
            }
        }
    }
    Ok(())
}
