//! `watch`: a line for everything that happens, until it is interrupted.

use crate::cli::{
    args::CallArgs,
    connect::{Effect, PROMPT, client, failed},
    exit::{Failure, UNAVAILABLE},
    json, say, text,
};
use clap::Args;
use fencepost_client::v1::{WatchRequest, WatchResponse, watch_response::Kind};

/// What to watch.
#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// Only locks whose names begin with this
    #[arg(default_value = "")]
    prefix: String,
    #[command(flatten)]
    call: CallArgs,
}

pub(in crate::cli) async fn watch(args: WatchArgs) -> Result<(), Failure> {
    let request = WatchRequest { prefix: args.prefix };
    let opened = client(&args.call.servers, String::new(), PROMPT)?.calls().watch(request).await;
    let mut events = opened.map_err(|error| failed(&error, Effect::Reads, &args.call.servers))?;
    let over = |why: &str| {
        Failure::new(UNAVAILABLE, format!("the watch ended ({why}): list with 'fencepost ls', then watch again"))
    };
    loop {
        match events.message().await {
            Ok(Some(event)) if args.call.json => super::print(&json::line("WatchResponse", &event)?)?,
            Ok(Some(event)) => match describe(&event) {
                Line::Event(line) => super::print(&line)?,
                Line::Aside(word) => say(&word),
            },
            Ok(None) => return Err(over("the server goes away")),
            Err(status) => return Err(over(status.message())),
        }
    }
}

/// Where a word goes: events to standard output, the rest beside it.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Event(String),
    Aside(String),
}

fn describe(event: &WatchResponse) -> Line {
    let what = match event.kind() {
        Kind::Started => return Line::Aside("watching".to_owned()),
        Kind::Missed => {
            let how_many = if event.missed == 0 { "some".to_owned() } else { format!("at least {}", event.missed) };
            return Line::Aside(format!("{how_many} events were missed: list with 'fencepost ls' for the state"));
        }
        Kind::Granted => "granted",
        Kind::Released => "released",
        Kind::Expired => "expired",
        Kind::Revoked => "revoked",
        Kind::Unspecified => "changed",
    };
    let why = if event.reason.is_empty() { String::new() } else { format!("  reason: {}", event.reason) };
    let holder = text::name(&event.holder);
    Line::Event(format!("{what:<8}  {}  token {}  {holder}{why}", event.lock_name, event.fencing_token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_and_the_rest_is_said_aside() {
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
        assert!(matches!(describe(&event(Kind::Missed)), Line::Aside(word) if word.starts_with("at least 3 events")));
        let uncounted = WatchResponse { missed: 0, ..event(Kind::Missed) };
        assert!(matches!(describe(&uncounted), Line::Aside(word) if word.starts_with("some events")));
        assert!(matches!(describe(&event(Kind::Started)), Line::Aside(_)));
    }
}
