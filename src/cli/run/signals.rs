//! The signals that `run` passes on to its command.

use nix::sys::signal::Signal;
use std::{fs, io, task::Poll};
use tokio::signal::unix::{SignalKind, signal};

/// What is passed on; all of it but USR1 and USR2 is also what a terminal or a shell sends.
const PASSED_ON: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// Listens from its creation on; nothing that comes later is lost.
#[derive(Debug)]
pub(super) struct Signals {
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored_mask(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        // Ignored by whoever started us (nohup, say): the command inherits that, unless we begin to listen.
        let heard = PASSED_ON.into_iter().filter(|one| ignored & (1 << (*one as i32 - 1)) == 0);
        let streams = heard.map(|one| Ok((one, signal(SignalKind::from_raw(one as i32))?)));
        Ok(Self { streams: streams.collect::<io::Result<_>>()? })
    }

    /// The next one. Dropped, it loses none.
    pub(super) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (one, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*one);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Does it ask the whole program to end?
pub(super) fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
}

/// Does a terminal send it to the whole group? The others are for the command alone: it knows its children.
pub(super) fn concerns_group(signal: Signal) -> bool {
    !matches!(signal, Signal::SIGTERM | Signal::SIGUSR1 | Signal::SIGUSR2)
}

/// One bit for each ignored signal, from the lowest; none where the system does not say.
fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_system() {
        assert_eq!(ignored_mask("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t00\n"), 0x1001);
        assert_eq!(ignored_mask(""), 0);
    }

    #[test]
    fn a_terminal_reaches_the_group_and_a_supervisor_the_command() {
        assert!(concerns_group(Signal::SIGINT) && concerns_group(Signal::SIGCONT));
        assert!(!concerns_group(Signal::SIGTERM) && !concerns_group(Signal::SIGUSR1));
        assert!(ends(Signal::SIGHUP) && !ends(Signal::SIGWINCH));
    }
}
