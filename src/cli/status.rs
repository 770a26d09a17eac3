//! `status`: whether the servers are ready, whether their store answers, and how many leases and waiters there are.

use super::{
    args::CallArgs,
    calls::{print, show::locks},
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NO, OUTPUT, USAGE},
    look::{ERROR, GOOD, Look},
    text,
};
use crate::server::STORE_METADATA;
use clap::Args;
use fencepost_client::{CallError, Moment, ServerAddress, Tls, raw};
use futures_util::future::join_all;
use serde::Serialize;
use std::time::Duration;
use tokio::time::timeout;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

/// How long a server may take to say whether it is ready, with the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The servers to ask.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Each server is asked whether it is ready (gRPC health) and where it keeps its locks (memory or redis). Leases and \
waiters are counted by listing the locks, over the first server that answers: they are those of all servers that \
share the store. Exit codes: 0 all servers are ready and the store answers; 1 not all; 69 no server answers.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    call: CallArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ready,
    NotReady,
    Unreachable,
}

#[derive(Debug, Serialize)]
struct Server {
    address: String,
    state: State,
    /// The kind of store, if the server says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    /// Why it is unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Store>,
    /// Why the locks cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Prints the status. Fails if a server is not ready.
pub(super) async fn status(args: StatusArgs) -> Result<(), Failure> {
    let servers = &args.call.servers;
    let (client, tls) = (client(servers, RETRY_FOR)?, servers.tls()?);
    let answers = join_all(servers.addresses().into_iter().map(|address| ask(address, &tls))).await;
    let known = answers.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    let started = Moment::now();
    let (store, failure) = match locks(&client, "").await {
        Ok(locks) => {
            let leases = locks.iter().map(|lock| lock.holders.len()).sum();
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
    let status = Status { servers: known, store, error: failure.map(|failure| failure.message) };
    let printed = if args.call.json { json(&status)? } else { describe(&status, Look::of_stdout()) };
    print(&printed)?;
    let fine = status.store.is_some() && status.servers.iter().all(|server| server.state == State::Ready);
    if fine { Ok(()) } else { Err(Failure::silent(NO)) }
}

/// Asks a server whether it is ready.
async fn ask(address: String, tls: &Tls) -> Result<Server, Failure> {
    let parsed: ServerAddress = address.parse().map_err(|error| Failure::new(USAGE, format!("{error}")))?;
    let check = async {
        let mut health = HealthClient::new(raw::connect(&parsed, tls).await.map_err(|error| explained(&error))?);
        let answer = health.check(HealthCheckRequest::default()).await;
        let answer = answer.map_err(|status| status.message().to_owned())?;
        // Only visible characters.
        let store = answer.metadata().get(STORE_METADATA).and_then(|store| store.to_str().ok()).map(str::to_owned);
        Ok((answer.into_inner().status(), store))
    };
    let checked = timeout(ANSWER_TIMEOUT, check).await.unwrap_or_else(|_| Err("no answer in time".to_owned()));
    let (state, store, error) = match checked {
        Ok((ServingStatus::Serving, store)) => (State::Ready, store, None),
        Ok((_, store)) => (State::NotReady, store, None),
        Err(why) => (State::Unreachable, None, Some(why)),
    };
    Ok(Server { address, state, store, error })
}

fn explained(error: &CallError) -> String {
    error.explanation().map_or_else(|| error.cause(), str::to_owned)
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
    for Server { address, state: is, store, error } in &status.servers {
        let kind = store.as_ref().map(|store| format!(", store {store}")).unwrap_or_default();
        let (words, rest) = match is {
            State::Ready => ("ready", kind),
            State::NotReady => ("not ready", format!("{kind}: it drains, or cannot use its store; its log says why")),
            State::Unreachable => ("unreachable", format!(": {}", text::visible(error.as_deref().unwrap_or_default()))),
        };
        lines.push(state(*is == State::Ready, words, line("server", &format!("{address} is {words}{rest}"))));
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
        Server { address: "a:7420".to_owned(), state, store, error: error.map(str::to_owned) }
    }

    #[test]
    fn the_text_has_a_line_for_each_server_and_the_counts() {
        let store = Some(Store { millis: 2, leases: 3, waiters: 1 });
        let servers = vec![
            server(State::Ready, None),
            server(State::NotReady, None),
            server(State::Unreachable, Some("refused")),
        ];
        let text = describe(&Status { servers, store, error: None }, Look::PLAIN);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "server   a:7420 is ready, store redis");
        assert!(lines[1].starts_with("server   a:7420 is not ready, store redis: it drains"), "{text}");
        assert_eq!(lines[2], "server   a:7420 is unreachable: refused");
        assert_eq!(lines[3..], ["store    answered in 2 ms", "leases   3", "waiters  1"]);
    }

    #[test]
    fn a_store_that_does_not_answer_is_marked() {
        let status =
            Status { servers: vec![server(State::NotReady, None)], store: None, error: Some("try again".to_owned()) };
        let text = describe(&status, Look::terminal(80));
        assert!(text.ends_with("store    \u{1b}[1m\u{1b}[31mno answer\u{1b}[0m: try again"), "{text:?}");
        assert_eq!(
            json(&status).unwrap(),
            r#"{"servers":[{"address":"a:7420","state":"not_ready","store":"redis"}],"error":"try again"}"#
        );
    }
}
