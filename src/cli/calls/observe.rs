//! `observe`: prints a line for each state of one lock with the time of its arrival, until it is interrupted.

use super::watch::now;
use crate::cli::{
    args::{CallArgs, ServerArgs},
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::Failure,
    json, text, write_note,
};
use clap::Args;
use fencepost_client::{
    CallError, Client, Code,
    raw::v1::{LockHolder, LockInfo, LockMode, ObserveRequest, ObserveResponse},
};
use std::time::Duration;
use tonic::Streaming;

/// The pause before the lock is observed again.
const PAUSE: Duration = Duration::from_millis(500);

/// The lock to observe.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
The first line is the state that the lock has now; a line follows after each grant, conversion, description and end of \
a lease, and says so when nobody holds the lock. Of changes in quick succession, the last one is shown. If the state \
cannot be read, observe says so on stderr, and goes on when it can.")]
pub(crate) struct ObserveArgs {
    /// Name of the lock
    name: String,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn observe(args: ObserveArgs) -> Result<(), Failure> {
    let servers = &args.call.servers;
    let client = client(servers, RETRY_FOR)?;
    let opened = open(&client, &args.name).await;
    let mut states = opened.map_err(|error| failed(&error, CallKind::Read, servers))?;
    loop {
        let why = match states.message().await {
            Ok(Some(state)) => {
                print(&args, &state)?;
                continue;
            }
            Ok(None) => "the server closed the stream".to_owned(),
            Err(status) => status.message().to_owned(),
        };
        write_note(&format!("{} cannot be observed ({why}): what it was may be out of date; trying again", args.name));
        states = open_again(&client, &args.name, servers).await?;
    }
}

async fn open(client: &Client, name: &str) -> Result<Streaming<ObserveResponse>, CallError> {
    client.calls().observe(ObserveRequest { lock_name: name.to_owned() }).await
}

/// Tries until a server answers, or refuses for good.
async fn open_again(client: &Client, name: &str, servers: &ServerArgs) -> Result<Streaming<ObserveResponse>, Failure> {
    loop {
        tokio::time::sleep(PAUSE).await;
        match open(client, name).await {
            Ok(states) => return Ok(states),
            Err(error) if may_pass(&error) => {}
            Err(error) => return Err(failed(&error, CallKind::Read, servers)),
        }
    }
}

/// Whether the next call may be answered.
fn may_pass(error: &CallError) -> bool {
    let passing = [Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted];
    error.is_unreachable() || passing.contains(&error.code())
}

fn print(args: &ObserveArgs, state: &ObserveResponse) -> Result<(), Failure> {
    if args.call.json {
        return super::print(&json::line("ObserveResponse", state)?);
    }
    let lock = state.lock.clone().unwrap_or_default();
    super::print(&format!("{}  {}", now(), line(&args.name, &lock)))
}

fn line(name: &str, lock: &LockInfo) -> String {
    let (what, who) = match &lock.holders[..] {
        [] => ("free", nobody(lock)),
        [first, ..] => {
            let shown = lock.holders.iter().map(holder);
            let more = lock.holder_count.saturating_sub(u32::try_from(lock.holders.len()).unwrap_or(u32::MAX));
            let all: Vec<_> = shown.chain((more > 0).then(|| format!("{more} more"))).collect();
            (if first.mode() == LockMode::Shared { "shared" } else { "held" }, all.join("; "))
        }
    };
    format!("{what:<8}  {}  {who}", text::visible(name))
}

/// Of a lock that nobody holds.
fn nobody(lock: &LockInfo) -> String {
    match &lock.delay {
        None => "nobody holds it".to_owned(),
        delay => format!("nobody holds it: it is {}", text::state((&[], 0), delay.as_ref())),
    }
}

/// A holder, and what it says of itself.
fn holder(holder: &LockHolder) -> String {
    let mut words = vec![text::name(&holder.holder)];
    if holder.fencing_token > 0 {
        words.insert(0, format!("token {}", holder.fencing_token));
    }
    words.extend(text::remarks(holder).into_iter().filter(|remark| remark != "shared"));
    let mut metadata: Vec<_> = holder.metadata.iter().collect();
    metadata.sort();
    let pairs = metadata.into_iter().map(|(key, value)| format!("{}={}", text::visible(key), text::visible(value)));
    words.extend(pairs);
    words.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_client::raw::v1::LockDelay;

    fn held() -> LockInfo {
        let holder = LockHolder {
            holder: "worker-7".to_owned(),
            fencing_token: 7,
            owner: "job-9".to_owned(),
            identity: "ann".to_owned(),
            description: 2,
            metadata: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
            mode: LockMode::Exclusive.into(),
            ..Default::default()
        };
        LockInfo { holders: vec![holder], holder_count: 1, ..Default::default() }
    }

    #[test]
    fn a_state_is_one_line() {
        let one = "held      a  token 7  worker-7  owner job-9  identity ann  description 2  a=1  b=2";
        assert_eq!(line("a", &held()), one);
        let mut shared = held();
        shared.holders[0] = LockHolder {
            holder: "r\n1".to_owned(),
            fencing_token: 8,
            mode: LockMode::Shared.into(),
            ..Default::default()
        };
        shared.holders.push(LockHolder { fencing_token: 9, holder: "r2".to_owned(), ..Default::default() });
        shared.holder_count = 5;
        assert_eq!(line("a", &shared), r"shared    a  token 8  r\n1; token 9  r2; 3 more");
        let classic = LockHolder { holder: "classic client".to_owned(), ..Default::default() };
        let classic = LockInfo { holders: vec![classic], holder_count: 1, ..Default::default() };
        assert_eq!(line("a", &classic), "held      a  classic client");
    }

    #[test]
    fn a_lock_that_nobody_holds_has_a_line() {
        assert_eq!(line("a", &LockInfo::default()), "free      a  nobody holds it");
        let delay = LockDelay {
            remaining: Some(text::to_wire(Duration::from_secs(24))),
            holder: "worker-7".to_owned(),
            fencing_token: 7,
        };
        let delayed = LockInfo { delay: Some(delay), ..Default::default() };
        let text = "free      a  nobody holds it: it is unavailable for another 24 s (delay after worker-7, token 7)";
        assert_eq!(line("a", &delayed), text);
    }
}
