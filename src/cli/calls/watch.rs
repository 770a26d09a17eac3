//! `watch`: prints a line for each event with the time of its arrival, until it is interrupted.

use crate::cli::{
    args::CallArgs,
    connect::{CallKind, RETRY_FOR, client, failed},
    exit::{Failure, NOT_PERMITTED, UNAVAILABLE},
    json, text, write_note,
};
use clap::{Args, builder::NonEmptyStringValueParser};
use fencepost_client::raw::v1::{LockMode, WatchRequest, WatchResponse, watch_response::Kind};
use std::time::SystemTime;
use tonic::Code;

/// The locks to watch.
#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// Only locks whose names start with this prefix
    #[arg(default_value = "")]
    prefix: String,
    /// Only the lock with exactly this name, in place of the prefix
    #[arg(long, value_name = "NAME", conflicts_with = "prefix", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn watch(args: WatchArgs) -> Result<(), Failure> {
    let name = args.name.as_deref();
    let request = WatchRequest { prefix: name.unwrap_or(&args.prefix).to_owned() };
    let opened = client(&args.call.servers, RETRY_FOR)?.calls().watch(request).await;
    let mut events = opened.map_err(|error| failed(&error, CallKind::Read, &args.call.servers))?;
    let ended = |why: &str| {
        Failure::new(UNAVAILABLE, format!("the watch ended ({why}): watch again, and then list with 'fencepost ls'"))
    };
    loop {
        match events.message().await {
            // Names that begin with the name that was asked for.
            Ok(Some(event)) if name.is_some_and(|name| !event.lock_name.is_empty() && event.lock_name != name) => {}
            Ok(Some(event)) if args.call.json => super::print(&json::line("WatchResponse", &event)?)?,
            Ok(Some(event)) => match describe(&event) {
                Line::Event(line) => super::print(&format!("{}  {line}", now()))?,
                Line::Message(message) => write_note(&message),
            },
            Ok(None) => return Err(ended("the server closed the stream")),
            Err(status) if matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied) => {
                return Err(Failure { code: NOT_PERMITTED, ..ended(status.message()) });
            }
            Err(status) => return Err(ended(status.message())),
        }
    }
}

/// The time of this machine in UTC, to the millisecond: `2026-11-23T20:31:02.123Z`.
#[allow(clippy::disallowed_methods, reason = "the wall clock is for people to read; it decides nothing")]
pub(super) fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// A line of output: events go to stdout, messages to stderr.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Event(String),
    Message(String),
}

fn describe(event: &WatchResponse) -> Line {
    let what = match event.kind() {
        Kind::Started => return Line::Message("watching".to_owned()),
        Kind::Missed => {
            let how_many = if event.missed == 0 { "some".to_owned() } else { format!("at least {}", event.missed) };
            return Line::Message(format!("{how_many} events were missed: see the current state with 'fencepost ls'"));
        }
        Kind::Granted => "granted",
        Kind::Released => "released",
        Kind::Expired => "expired",
        Kind::Revoked => "revoked",
        Kind::Changed | Kind::Unspecified => "changed",
    };
    let mode = match event.mode() {
        LockMode::Unspecified => "",
        LockMode::Exclusive => "  exclusive",
        LockMode::Shared => "  shared",
        LockMode::Semaphore => "  semaphore",
    };
    let labelled = |label: &str, text: &str| match text {
        "" => String::new(),
        text => format!("  {label} {}", text::visible(text)),
    };
    let (who, why) = (labelled("identity", &event.identity), labelled("reason:", &event.reason));
    let (name, holder) = (text::visible(&event.lock_name), text::name(&event.holder));
    Line::Event(format!("{what:<8}  {name}  token {}  {holder}{mode}{who}{why}", event.fencing_token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_go_to_stdout_and_messages_to_stderr() {
        let event = |kind: Kind| WatchResponse {
            kind: kind.into(),
            lock_name: "a".to_owned(),
            holder: "worker-7".to_owned(),
            fencing_token: 7,
            missed: 3,
            ..Default::default()
        };
        assert_eq!(describe(&event(Kind::Granted)), Line::Event("granted   a  token 7  worker-7".to_owned()));
        let revoked = WatchResponse { reason: "stuck".to_owned(), ..event(Kind::Revoked) };
        assert_eq!(describe(&revoked), Line::Event("revoked   a  token 7  worker-7  reason: stuck".to_owned()));
        let changed =
            WatchResponse { mode: LockMode::Shared.into(), identity: "ann".to_owned(), ..event(Kind::Changed) };
        let line = "changed   a  token 7  worker-7  shared  identity ann";
        assert_eq!(describe(&changed), Line::Event(line.to_owned()));
        assert!(matches!(describe(&event(Kind::Missed)), Line::Message(it) if it.starts_with("at least 3 events")));
        let uncounted = WatchResponse { missed: 0, ..event(Kind::Missed) };
        assert!(matches!(describe(&uncounted), Line::Message(it) if it.starts_with("some events")));
        assert!(matches!(describe(&event(Kind::Started)), Line::Message(_)));
    }
}
