//! Locks that are held meanwhile: what a command costs must not grow with them.

use super::Run;
use crate::{
    caller::{Fault, connect},
    place::Place,
    plan::Via,
};
use anyhow::{Result, bail};
use std::time::Duration;
use tokio::task::JoinSet;

/// Nobody renews them.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// Those of one session: few enough that it carries them, and it goes when it has them.
const PER_SESSION: usize = 50_000;
/// Acquires under way.
const TAKERS: usize = 128;

/// Takes them, and leaves them.
pub(crate) async fn take(run: Run<'_>, place: &Place) -> Result<()> {
    let held = run.plan.held;
    if held > 0 {
        eprintln!("{}: taking {held} locks", run.label);
    }
    for from in (0..held).step_by(PER_SESSION) {
        let caller = connect(&place.urls, 1, Via::Session).await?.remove(0);
        let mut tasks = JoinSet::new();
        for taker in 0..TAKERS {
            let (mut caller, prefix) = (caller.clone(), format!("{}held/", run.prefix));
            tasks.spawn(async move {
                for number in (from + taker..held.min(from + PER_SESSION)).step_by(TAKERS) {
                    caller.acquire(&format!("{prefix}{number}"), TTL, Duration::ZERO).await?;
                }
                Ok::<_, Fault>(())
            });
        }
        while let Some(taken) = tasks.join_next().await {
            if let Err(fault) = taken? {
                bail!("{}", fault.0);
            }
        }
    }
    Ok(())
}
