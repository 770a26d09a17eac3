//! `status`: whether the servers are ready, whether their store answers, and how many leases and waiters there are.

use super::{
    args::CallArgs,
    ask::{Server, State, ask_all, divided},
    calls::{print, show::locks},
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NO, OUTPUT},
    look::{ERROR, GOOD, Look},
    text,
};
use clap::Args;
use fencepost_client::Moment;
use serde::Serialize;
use std::time::Duration;

/// How long a server may take to say whether it is ready, with the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The servers to ask.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Each server is asked whether it is ready (gRPC health) and where it keeps its locks (memory, redis or quorum, and the \
id of the store: servers share their locks if it is the same). Leases and waiters are counted by listing the locks, \
over the first server that answers: they are those of all servers that share the store. Exit codes: 0 all servers are \
ready, share a store, and it answers; 1 not all; 69 no server answers.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    call: CallArgs,
}

/// The answer of the store to the listing.
#[derive(Debug, Serialize)]
struct Store {
    /// How long the listing took.
    millis: u128,
    leases: usize,
    waiters: u64,
}

#[derive(Debug, Serialize)]
struct Status {
    servers: Vec<Server>,
    /// That they do not share a store.
    #[serde(skip_serializing_if = "Option::is_none")]
    divided: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Store>,
    /// Why the locks cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Prints the status. Fails if a server is not ready.
pub(super) async fn status(args: StatusArgs) -> Result<(), Failure> {
    let servers = &args.call.servers;
    let client = client(servers, RETRY_FOR)?;
    let known = ask_all(servers, ANSWER_TIMEOUT).await?;
    let started = Moment::now();
    let (store, failure) = match locks(&client, "").await {
        Ok(locks) => {
            let leases = locks.iter().map(|lock| lock.holder_count as usize).sum();
            let waiters = locks.iter().map(|lock| u64::from(lock.waiters)).sum();
            (Some(Store { millis: Moment::now().since(started).as_millis(), leases, waiters }), None)
        }
        Err(error) => (None, Some(failed(&error, CallKind::Read, servers))),
    };
    if known.iter().all(|server| server.state == State::Unreachable)
        && let Some(failure) = failure
    {
        return Err(failure);
    }
    let divided = divided(&known);
    let status = Status { servers: known, divided, store, error: failure.map(|failure| failure.message) };
    let printed = if args.call.json { json(&status)? } else { describe(&status, Look::of_stdout()) };
    print(&printed)?;
    let fine = status.store.is_some()
        && status.divided.is_none()
        && status.servers.iter().all(|server| server.state == State::Ready);
    if fine { Ok(()) } else { Err(Failure::silent(NO)) }
}

fn json(status: &Status) -> Result<String, Failure> {
    serde_json::to_string(status)
        .map_err(|error| Failure::new(OUTPUT, format!("cannot encode the status as JSON: {error}")))
}

fn describe(status: &Status, look: Look) -> String {
    let line = |label: &str, text: &str| look.wrap(&format!("{label:<8} {text}"), "         ");
    let state = |good: bool, words: &str, lines: String| {
        lines.replacen(words, &look.paint(if good { GOOD } else { ERROR }, words), 1)
    };
    let mut lines = Vec::new();
    for Server { address, state: is, store, store_id, error } in &status.servers {
        let id = store_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        let kind = store.as_ref().map(|store| format!(", store {store}{id}")).unwrap_or_default();
        let (words, rest) = match is {
            State::Ready => ("ready", kind),
            State::NotReady => {
                ("not ready", format!("{kind}: the server drains, or cannot use its store; its log says why"))
            }
            State::Unreachable => ("unreachable", format!(": {}", text::visible(error.as_deref().unwrap_or_default()))),
        };
        lines.push(state(*is == State::Ready, words, line("server", &format!("{address} is {words}{rest}"))));
    }
    if let Some(why) = &status.divided {
        lines.push(state(false, "do not share a store", line("stores", why)));
    }
    match (&status.store, &status.error) {
        (Some(store), _) => {
            let took = Duration::from_millis(u64::try_from(store.millis).unwrap_or(u64::MAX));
            lines.push(line("store", &format!("answered in {}", text::span(took))));
            lines.push(line("leases", &store.leases.to_string()));
            lines.push(line("waiters", &store.waiters.to_string()));
        }
        (None, why) => {
            let why = text::visible(why.as_deref().unwrap_or_default());
            lines.push(state(false, "no answer", line("store", &format!("no answer: {why}"))));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(state: State, error: Option<&str>) -> Server {
        let store = (state != State::Unreachable).then(|| "redis".to_owned());
        let store_id = store.as_ref().map(|_| "7f".to_owned());
        Server { address: "a:7420".to_owned(), state, store, store_id, error: error.map(str::to_owned) }
    }

    #[test]
    fn the_text_has_a_line_for_each_server_and_the_counts() {
        let store = Some(Store { millis: 2, leases: 3, waiters: 1 });
        let servers = vec![
            server(State::Ready, None),
            server(State::NotReady, None),
            server(State::Unreachable, Some("refused")),
        ];
        let text = describe(&Status { servers, divided: None, store, error: None }, Look::PLAIN);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "server   a:7420 is ready, store redis 7f");
        assert!(lines[1].starts_with("server   a:7420 is not ready, store redis 7f: the server drains"), "{text}");
        assert_eq!(lines[2], "server   a:7420 is unreachable: refused");
        assert_eq!(lines[3..], ["store    answered in 2 ms", "leases   3", "waiters  1"]);
    }

    #[test]
    fn a_store_that_does_not_answer_is_marked() {
        let servers = vec![server(State::NotReady, None)];
        let status = Status { servers, divided: None, store: None, error: Some("try again".to_owned()) };
        let text = describe(&status, Look::terminal(80));
        assert!(text.ends_with("store    \u{1b}[1m\u{1b}[31mno answer\u{1b}[0m: try again"), "{text:?}");
        assert_eq!(
            json(&status).unwrap(),
            r#"{"servers":[{"address":"a:7420","state":"not_ready","store":"redis","store_id":"7f"}],"error":"try again"}"#
        );
    }
}
