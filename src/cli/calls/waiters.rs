//! `waiters`: shows who waits for a lock.

use crate::cli::{
    args::CallArgs,
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::Failure,
    look::Look,
    text, write_note,
};
use clap::Args;
use fencepost_client::{
    CallError, Client,
    raw::v1::{ListWaitersRequest, ListWaitersResponse, LockInfo, LockMode, LockWaiter},
};
use std::collections::HashSet;

/// The lock whose queue to show.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
A waiter is skipped while its call was dropped, does not read, or its server is silent: those behind it are served, \
and its place is kept for a few seconds.")]
pub(crate) struct WaitersArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn waiters(args: WaitersArgs) -> Result<(), Failure> {
    let client = client(&args.call.servers, RETRY_FOR)?;
    let reply = all(&client, &args.name).await;
    let reply = reply.map_err(|error| failed(&error, CallKind::Read, &args.call.servers))?;
    if reply.waiters.is_empty() && !args.call.json {
        write_note(&format!("nobody waits for {}", args.name));
    }
    let text = shown(&reply, Look::of_stdout());
    super::finish(args.call.json, "ListWaitersResponse", &reply, Ok(text))
}

/// All pages, with the lock as of the first one.
pub(in crate::cli) async fn all(client: &Client, lock_name: &str) -> Result<ListWaitersResponse, CallError> {
    let (calls, mut page_token) = (client.calls(), String::new());
    let (mut lock, mut waiters, mut seen) = (None::<LockInfo>, Vec::new(), HashSet::new());
    loop {
        let request = ListWaitersRequest { lock_name: lock_name.to_owned(), page_size: 0, page_token };
        let page = calls.list_waiters(request).await?;
        lock = lock.or(page.lock);
        // A request that goes to the end of the queue meanwhile is on two pages.
        waiters.extend(page.waiters.into_iter().filter(|waiter| seen.insert(waiter.waiter_id.clone())));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(ListWaitersResponse { lock, waiters, next_page_token: page_token });
        }
    }
}

fn shown(reply: &ListWaitersResponse, look: Look) -> String {
    let mut rows = vec![["HOLDER", "OWNER", "IDENTITY", "MODE", "WAITS FOR"].map(str::to_owned)];
    rows.extend(reply.waiters.iter().map(cells));
    super::table::table(&rows, 3, look)
}

fn cells(waiter: &LockWaiter) -> [String; 5] {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text::visible(text) };
    let waits = text::span(text::from_wire(waiter.waiting_since.as_ref()));
    [
        or_dash(&waiter.holder),
        or_dash(&waiter.owner),
        or_dash(&waiter.identity),
        mode(waiter),
        if waiter.skipped { format!("{waits} (skipped)") } else { waits },
    ]
}

/// How a request shares the lock.
pub(in crate::cli) fn mode(waiter: &LockWaiter) -> String {
    match (waiter.mode(), waiter.permits) {
        (LockMode::Semaphore, 1) => "1 permit".to_owned(),
        (LockMode::Semaphore, permits) => format!("{permits} permits"),
        (LockMode::Shared, _) => "shared".to_owned(),
        (LockMode::Exclusive | LockMode::Unspecified, _) => "exclusive".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_queue_is_a_table() {
        let writer = LockWaiter {
            holder: "worker-7".to_owned(),
            owner: "job-9".to_owned(),
            identity: "ann".to_owned(),
            mode: LockMode::Exclusive.into(),
            waiting_since: Some(text::to_wire(Duration::from_secs(75))),
            ..Default::default()
        };
        let permits = LockWaiter {
            mode: LockMode::Semaphore.into(),
            permits: 2,
            skipped: true,
            waiting_since: Some(text::to_wire(Duration::from_secs(3))),
            ..Default::default()
        };
        let reader = LockWaiter { holder: "r".to_owned(), mode: LockMode::Shared.into(), ..Default::default() };
        let text =
            shown(&ListWaitersResponse { waiters: vec![writer, permits, reader], ..Default::default() }, Look::PLAIN);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "HOLDER    OWNER  IDENTITY  MODE       WAITS FOR");
        assert_eq!(lines[1], "worker-7  job-9  ann       exclusive  1 min 15 s");
        assert_eq!(lines[2], "-         -      -         2 permits  3 s (skipped)");
        assert_eq!(lines[3], "r         -      -         shared     0 ms");
        assert_eq!(shown(&ListWaitersResponse::default(), Look::PLAIN), "");
    }
}
