//! The line that a terminal shows while a command waits for a lock: who holds it, for how long, and how many are before
//! this command. It goes away when the wait ends.

use super::{look, text};
use crate::telemetry::{self, FlushOnDrop};
use fencepost_client::{
    Client,
    raw::v1::{GetRequest, LockInfo},
};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::{
    convert::Infallible,
    future::pending,
    io::{self, IsTerminal, Write},
    time::Duration,
};
use terminal_size::{Width, terminal_size_of};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing_appender::non_blocking::NonBlocking;

/// A command that gets its lock within this time shows no line.
const DELAY: Duration = Duration::from_millis(300);
/// How often the line changes, at least. Each time the server is asked once who holds the lock.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the server may take to say who holds the lock.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Shows the line until it is dropped. Does nothing if stderr is not a terminal.
///
/// A terminal that is stopped (Ctrl-S) delays nothing, since a thread writes to it.
pub(super) async fn show(client: &Client, lock_name: &str, mut ahead: watch::Receiver<Option<u32>>) -> Infallible {
    if !io::stderr().is_terminal() || std::env::var_os("TERM").is_some_and(|name| name == "dumb") {
        return pending().await;
    }
    sleep(DELAY).await;
    let (mut line, calls) = (Line::new(), client.calls());
    loop {
        let asked = calls.get(GetRequest { lock_name: lock_name.to_owned() });
        let reply = timeout(ANSWER_TIMEOUT, asked).await.ok().and_then(Result::ok);
        let lock = reply.map(|reply| reply.lock.unwrap_or_default());
        let before = *ahead.borrow_and_update();
        line.draw(&describe(lock_name, lock.as_ref(), before));
        tokio::select! {
            () = sleep(INTERVAL) => {}
            // An error means that the wait is over.
            Ok(()) = ahead.changed() => {}
        }
    }
}

/// The text of the line. `lock` is `None` if the server did not say; `ahead` until it has told the position.
fn describe(lock_name: &str, lock: Option<&LockInfo>, ahead: Option<u32>) -> String {
    let state = match lock {
        None => "no answer from the server, trying again".to_owned(),
        Some(lock) => text::state((&lock.holders, lock.holder_count), lock.delay.as_ref()),
    };
    let position = match ahead {
        None => String::new(),
        Some(0) => "; you are next".to_owned(),
        Some(ahead) => format!("; {ahead} before you"),
    };
    format!("waiting for {}: {state}{position}", text::visible(lock_name))
}

/// A line on the terminal of stderr that is drawn again and again. Dropped, it is erased.
struct Line {
    writer: NonBlocking,
    drawn: bool,
    /// Dropped last: waits until the line is erased, because the next output belongs to another program.
    _flush: FlushOnDrop,
}

/// Moves to the start of the line, and erases it.
const ERASE: &str = "\r\u{1b}[2K";

impl Line {
    fn new() -> Self {
        let (writer, flush) = telemetry::stderr();
        Self { writer, drawn: false, _flush: flush }
    }

    fn draw(&mut self, text: &str) {
        // A job in the background must not draw over the shell. A terminal that does not control this process has no
        // jobs.
        if tcgetpgrp(io::stderr()).is_ok_and(|foreground| foreground != getpgrp()) {
            return;
        }
        let width = terminal_size_of(io::stderr()).map(|(Width(columns), _)| usize::from(columns));
        self.write(&format!("{ERASE}{}", cut(text, width)));
        self.drawn = true;
    }

    /// A single write, since each may be dropped.
    fn write(&mut self, text: &str) {
        let _ = self.writer.write_all(text.as_bytes());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.drawn {
            self.write(ERASE);
        }
    }
}

/// The text, cut so that the cursor stays on its line.
fn cut(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if look::columns(text) >= width => {
            let mut kept = String::new();
            // One column for the ellipsis, one for the cursor.
            for character in text.chars() {
                if look::columns(&kept) + look::columns(character.encode_utf8(&mut [0; 4])) + 2 > width {
                    break;
                }
                kept.push(character);
            }
            kept + "…"
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_client::raw::v1::LockHolder;

    #[test]
    fn the_line_names_the_holder_the_time_left_and_the_position() {
        let holder = LockHolder {
            holder: "worker-7".to_owned(),
            fencing_token: 9,
            expires_in: Some(text::to_wire(Duration::from_secs(12))),
            ..Default::default()
        };
        let held = LockInfo { holders: vec![holder], ..Default::default() };
        let line = |ahead| describe("a", Some(&held), ahead);
        assert_eq!(line(None), "waiting for a: held by worker-7 (token 9) for another 12 s");
        assert_eq!(line(Some(0)), "waiting for a: held by worker-7 (token 9) for another 12 s; you are next");
        assert_eq!(line(Some(2)), "waiting for a: held by worker-7 (token 9) for another 12 s; 2 before you");
        assert_eq!(describe("a", Some(&LockInfo::default()), None), "waiting for a: being offered to the next waiter");
        assert_eq!(
            describe("a", None, Some(1)),
            "waiting for a: no answer from the server, trying again; 1 before you"
        );
    }

    #[test]
    fn the_line_leaves_a_column_for_the_cursor() {
        assert_eq!(cut("waiting", None), "waiting");
        assert_eq!(cut("waiting", Some(8)), "waiting");
        assert_eq!(cut("waiting", Some(7)), "waiti…");
        assert_eq!(cut("日本語", Some(6)), "日本…");
        assert_eq!(cut("waiting", Some(1)), "…");
    }
}
