//! `get`, `ls` and `check-token`: read the current state.

use crate::cli::{
    args::CallArgs,
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NO},
    look::Look,
    text, write_note,
};
use clap::Args;
use fencepost_client::{
    CallError, Client, facts,
    raw::v1::{
        CheckTokenRequest, CheckTokenResponse, GetRequest, GetResponse, LeaseEnd, ListRequest, ListResponse, LockDelay,
        LockHolder, LockInfo, LockMode, Semaphore, check_token_response::Status,
    },
};

/// The lock to show.
#[derive(Args, Clone, Debug)]
pub(crate) struct GetArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    call: CallArgs,
}

/// The locks to list.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Only locks whose names start with this prefix
    #[arg(default_value = "")]
    prefix: String,
    #[command(flatten)]
    call: CallArgs,
}

/// The token to check.
#[derive(Args, Clone, Debug)]
pub(crate) struct CheckTokenArgs {
    /// Name of the lock
    name: String,
    /// Token
    token: u64,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn get(args: GetArgs) -> Result<(), Failure> {
    let request = GetRequest { lock_name: args.name.clone() };
    let result = client(&args.call.servers, RETRY_FOR)?.calls().get(request).await;
    let reply = result.map_err(|error| failed(&error, CallKind::Read, &args.call.servers))?;
    super::finish(args.call.json, "GetResponse", &reply, Ok(shown(&args.name, &reply)))
}

pub(in crate::cli) async fn list(args: ListArgs) -> Result<(), Failure> {
    let client = client(&args.call.servers, RETRY_FOR)?;
    let locks = locks(&client, &args.prefix).await;
    let locks = locks.map_err(|error| failed(&error, CallKind::Read, &args.call.servers))?;
    if locks.is_empty() && !args.call.json {
        write_note("no lock is held or waited for");
    }
    let reply = ListResponse { locks, next_page_token: String::new() };
    super::finish(args.call.json, "ListResponse", &reply, Ok(table(&reply.locks, Look::of_stdout())))
}

/// The locks with this prefix, sorted by name.
pub(in crate::cli) async fn locks(client: &Client, prefix: &str) -> Result<Vec<LockInfo>, CallError> {
    let calls = client.calls();
    let (mut locks, mut page_token) = (Vec::new(), String::new());
    loop {
        let page_size = facts::PAGE_SIZE_MAX;
        let page = calls.list(ListRequest { prefix: prefix.to_owned(), page_size, page_token }).await?;
        locks.extend(page.locks);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    // Pages are not sorted, and a lock that is released and acquired meanwhile may be on two of them.
    locks.sort_by(|a, b| a.lock_name.cmp(&b.lock_name));
    locks.dedup_by(|a, b| a.lock_name == b.lock_name);
    Ok(locks)
}

pub(in crate::cli) async fn check_token(args: CheckTokenArgs) -> Result<(), Failure> {
    let request = CheckTokenRequest { lock_name: args.name.clone(), fencing_token: args.token };
    let result = client(&args.call.servers, RETRY_FOR)?.calls().check_token(request).await;
    let reply = result.map_err(|error| failed(&error, CallKind::Read, &args.call.servers))?;
    super::finish(args.call.json, "CheckTokenResponse", &reply, checked(&args.name, args.token, &reply))
}

fn shown(name: &str, reply: &GetResponse) -> String {
    let lock = reply.lock.clone().unwrap_or_default();
    let mut lines = Vec::new();
    if lock.holders.is_empty() && lock.waiters == 0 && lock.delay.is_none() {
        lines.push(format!("{} is free", text::visible(name)));
    } else {
        lines.push(text::held(name, (&lock.holders, lock.holder_count), lock.delay.as_ref(), lock.waiters));
    }
    let leases: Vec<_> = lock.holders.iter().filter(|holder| holder.fencing_token != 0).collect();
    for lease in &leases {
        lines.push(format!("  token     {}", lease.fencing_token));
        match (lease.mode(), lease.permits) {
            (LockMode::Shared, _) => lines.push("  mode      shared".to_owned()),
            (_, 0) => {}
            (_, 1) => lines.push(format!("  slot      {}", lease.slot)),
            (_, permits) => lines.push(format!("  permits   {permits}")),
        }
        let labels = [("owner   ", &lease.owner), ("identity", &lease.identity)];
        let given = labels.into_iter().filter(|(_, text)| !text.is_empty());
        lines.extend(given.map(|(label, text)| format!("  {label}  {}", text::visible(text))));
        lines.push(format!("  held for  {}", text::span(text::from_wire(lease.held_since.as_ref()))));
        lines.push(format!("  ttl       {}", text::span(text::from_wire(lease.ttl.as_ref()))));
        lines.push(format!("  grant id  {}", text::visible(&lease.grant_id)));
        let pair = |(key, value): (&String, &String)| format!("  {}={}", text::visible(key), text::visible(value));
        let mut metadata: Vec<_> = lease.metadata.iter().map(pair).collect();
        metadata.sort();
        lines.extend((lease.description > 0).then(|| format!("  description {}", lease.description)));
        lines.extend(metadata);
    }
    if leases.is_empty() && lock.newest_token != 0 {
        lines.push(format!("  newest token  {}", lock.newest_token));
    }
    if let Some(Semaphore { permits_used, permit_limit, permit_limit_version }) = lock.semaphore {
        lines.push(format!("  {permits_used} of {permit_limit} permits in use (limit version {permit_limit_version})"));
    }
    if lock.previous_end() != LeaseEnd::Unspecified {
        lines.push(format!("  the previous lease {}", text::end(lock.previous_end())));
    }
    lines.join("\n")
}

fn table(locks: &[LockInfo], look: Look) -> String {
    let mut rows = vec![["LOCK", "HOLDER", "TOKEN", "ENDS IN", "WAITERS"].map(str::to_owned)];
    for lock in locks {
        let row = |[holder, token, ends_in]: [String; 3]| {
            [text::visible(&lock.lock_name), holder, token, ends_in, lock.waiters.to_string()]
        };
        if lock.holders.is_empty() && lock.delay.is_none() {
            rows.push(row(["-", "-", "-"].map(str::to_owned)));
        }
        rows.extend(lock.delay.as_ref().map(delayed).map(row));
        rows.extend(lock.holders.iter().map(cells).map(row));
        let more = u32::try_from(lock.holders.len()).map_or(0, |shown| lock.holder_count.saturating_sub(shown));
        rows.extend((more > 0).then(|| row([format!("({more} more)"), "-".to_owned(), "-".to_owned()])));
    }
    super::table::table(&rows, 2, look)
}

/// Of what nobody holds: the token with which an operator makes it available.
fn delayed(delay: &LockDelay) -> [String; 3] {
    [
        format!("(delay after {})", text::name(&delay.holder)),
        delay.fencing_token.to_string(),
        text::span(text::from_wire(delay.remaining.as_ref())),
    ]
}

fn cells(holder: &LockHolder) -> [String; 3] {
    [
        match text::remarks(holder) {
            none if none.is_empty() => text::name(&holder.holder),
            remarks => format!("{} ({})", text::name(&holder.holder), remarks.join(", ")),
        },
        if holder.fencing_token == 0 { "-".to_owned() } else { holder.fencing_token.to_string() },
        holder.expires_in.as_ref().map_or("-".to_owned(), |left| text::span(text::from_wire(Some(left)))),
    ]
}

fn checked(name: &str, token: u64, reply: &CheckTokenResponse) -> Result<String, Failure> {
    let refuse = |why: &str| Err(Failure::new(NO, format!("token {token} of {name} {why}: refuse the write")));
    match reply.status() {
        Status::Current => Ok(format!("token {token} of {} is current", text::visible(name))),
        Status::Ended => refuse("is the newest, but its lease has ended"),
        Status::Stale => refuse(&format!("is stale, the newest is {}", reply.newest_token)),
        Status::Unknown => refuse("is not known to the server"),
        Status::Unspecified => Err(super::unknown_answer()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::look::columns;
    use std::time::Duration;

    fn held(name: &str, holder: &str) -> LockInfo {
        let holder = LockHolder {
            holder: holder.to_owned(),
            fencing_token: 7,
            grant_id: "g".to_owned(),
            ttl: Some(text::to_wire(Duration::from_secs(30))),
            expires_in: Some(text::to_wire(Duration::from_secs(12))),
            held_since: Some(text::to_wire(Duration::from_secs(75))),
            metadata: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
            mode: LockMode::Exclusive.into(),
            ..Default::default()
        };
        LockInfo { lock_name: name.to_owned(), holders: vec![holder], waiters: 1, ..Default::default() }
    }

    #[test]
    fn a_free_lock_is_shown_with_its_newest_token() {
        let lock = LockInfo { newest_token: 7, previous_end: LeaseEnd::Released.into(), ..Default::default() };
        let text = shown("a", &GetResponse { lock: Some(lock) });
        assert_eq!(text, "a is free\n  newest token  7\n  the previous lease was released");
        assert_eq!(shown("a", &GetResponse::default()), "a is free");
    }

    #[test]
    fn a_held_lock_is_shown_with_its_holder() {
        let text = shown("a", &GetResponse { lock: Some(held("a", "worker-7")) });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "a is held by worker-7 (token 7) for another 12 s; 1 waiter");
        let lease = ["  token     7", "  held for  1 min 15 s", "  ttl       30 s", "  grant id  g", "  a=1", "  b=2"];
        assert_eq!(lines[1..], lease);
        let mut lock = held("a", "worker-7");
        let labels = ("job-9".to_owned(), "ann".to_owned(), 3);
        (lock.holders[0].owner, lock.holders[0].identity, lock.holders[0].description) = labels;
        let text = shown("a", &GetResponse { lock: Some(lock.clone()) });
        let lines = "\n  token     7\n  owner     job-9\n  identity  ann\n  held for  1 min 15 s\n";
        assert!(text.contains(lines) && text.contains("\n  description 3\n  a=1\n"), "{text}");
        lock.holders[0].mode = LockMode::Shared.into();
        let row = "a     worker-7 (shared, owner job-9, identity ann, description 3)  7      12 s     1";
        assert_eq!(table(&[lock], Look::PLAIN).lines().last(), Some(row));
    }

    #[test]
    fn all_holders_are_shown() {
        let mut lock = held("a", "worker-7");
        lock.holders.push(LockHolder { fencing_token: 8, ..lock.holders[0].clone() });
        let text = shown("a", &GetResponse { lock: Some(lock.clone()) });
        assert!(text.contains("\n  token     7\n") && text.contains("\n  token     8\n"), "{text}");
        let text = table(&[lock], Look::PLAIN);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1..], ["a     worker-7  7      12 s     1", "a     worker-7  8      12 s     1"]);
        let mut shared = held("a", "worker-7");
        shared.holders[0].mode = LockMode::Shared.into();
        shared.holder_count = 12;
        let text = shown("a", &GetResponse { lock: Some(shared.clone()) });
        let first = "a is shared by worker-7 (token 7) for another 12 s and 11 more; 1 waiter\n  token     7\n  mode      shared";
        assert!(text.starts_with(first), "{text}");
        let text = table(&[shared], Look::PLAIN);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1..],
            ["a     worker-7 (shared)  7      12 s     1", "a     (11 more)          -      -        1"]
        );
    }

    #[test]
    fn a_classic_client_has_no_token_and_possibly_no_ttl() {
        let mut hold = LockHolder { holder: "classic client".to_owned(), ..Default::default() };
        hold.expires_in = Some(text::to_wire(Duration::from_secs(9)));
        let mut lock =
            LockInfo { lock_name: "a".to_owned(), holders: vec![hold], newest_token: 7, ..Default::default() };
        let show = |lock: &LockInfo| shown("a", &GetResponse { lock: Some(lock.clone()) });
        assert_eq!(show(&lock), "a is held by classic client for another 9 s\n  newest token  7");
        lock.holders[0].expires_in = None;
        assert_eq!(show(&lock), "a is held by classic client, without a TTL\n  newest token  7");
        assert_eq!(table(&[lock], Look::PLAIN).lines().last().unwrap(), "a     classic client  -      -        0");
    }

    #[test]
    fn a_delay_is_shown_with_its_token() {
        let delay = LockDelay {
            remaining: Some(text::to_wire(Duration::from_secs(24))),
            holder: "worker-7".to_owned(),
            fencing_token: 7,
        };
        let lock = LockInfo {
            lock_name: "a".to_owned(),
            newest_token: 7,
            previous_end: LeaseEnd::Released.into(),
            delay: Some(delay),
            ..Default::default()
        };
        let text = shown("a", &GetResponse { lock: Some(lock.clone()) });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "a is unavailable for another 24 s (delay after worker-7, token 7)");
        assert_eq!(lines[1..], ["  newest token  7", "  the previous lease was released"]);
        let text = table(&[lock], Look::PLAIN);
        assert_eq!(text.lines().last().unwrap(), "a     (delay after worker-7)  7      24 s     0");
    }

    #[test]
    fn a_listing_is_a_table() {
        let offered = LockInfo { lock_name: "orders/42".to_owned(), waiters: 12, ..Default::default() };
        let text = table(&[held("a", "worker-7"), offered], Look::PLAIN);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "LOCK       HOLDER    TOKEN  ENDS IN  WAITERS");
        assert_eq!(lines[1], "a          worker-7  7      12 s     1");
        assert_eq!(lines[2], "orders/42  -         -      -        12");
        assert_eq!(table(&[], Look::PLAIN), "");
    }

    #[test]
    fn a_listing_fits_into_the_terminal() {
        let long = held("reports/2026/11/23/nightly", "ann@build-machine-17.example:12345");
        let text = table(&[long, held("a", "b")], Look::terminal(60));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.iter().all(|line| columns(line) <= 60), "{text}");
        assert!(lines[0].starts_with("\u{1b}[1mLOCK") && lines[0].ends_with("WAITERS\u{1b}[0m"), "{text}");
        // No character is lost, and the figures are on the first line of a row.
        assert!(lines[1].contains("  7      12 s     1"), "{text}");
        let first_column: String = lines[1..].iter().map(|line| line.split("  ").next().unwrap()).collect();
        assert_eq!(first_column, "reports/2026/11/23/nightlya", "{text}");
        let narrow = table(&[held(&"x".repeat(100), "b")], Look::terminal(30));
        assert!(narrow.lines().any(|line| line.starts_with(&"x".repeat(100))), "too narrow for columns: {narrow}");
    }

    #[test]
    fn only_the_current_token_passes_the_check() {
        let reply = |status: Status| CheckTokenResponse { status: status.into(), newest_token: 9 };
        assert_eq!(checked("a", 9, &reply(Status::Current)).unwrap(), "token 9 of a is current");
        for (status, word) in [(Status::Ended, "ended"), (Status::Stale, "newest is 9"), (Status::Unknown, "not known")]
        {
            let failure = checked("a", 7, &reply(status)).unwrap_err();
            assert!(failure.code == NO && failure.message.contains(word), "{failure}");
        }
    }
}
