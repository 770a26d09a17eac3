//! The signals that `run` forwards to its command. `hold` and `acquire` end with those that ask a program to exit.

use crate::cli::exit::{Failure, UNAVAILABLE};
use nix::sys::signal::Signal;
use std::{fs, io, task::Poll};
use tokio::signal::unix::{SignalKind, signal};

/// The signals that are forwarded.
const FORWARDED: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// Listens from its creation on; no later signal is lost.
#[derive(Debug)]
pub(in crate::cli) struct Signals {
    streams: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl Signals {
    pub(in crate::cli) fn listen() -> Result<Self, Failure> {
        let ignored = ignored_mask(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        // A signal that our parent ignores (nohup does) stays ignored in the command, unless we listen to it.
        let wanted = FORWARDED.into_iter().filter(|one| ignored & (1 << (*one as i32 - 1)) == 0);
        let streams = wanted.map(|one| Ok((one, signal(SignalKind::from_raw(one as i32))?)));
        let streams = streams.collect::<io::Result<_>>();
        let streams =
            streams.map_err(|error| Failure::new(UNAVAILABLE, format!("cannot listen for signals: {error}")))?;
        Ok(Self { streams })
    }

    /// The next signal that asks the program to exit. Cancel-safe.
    pub(in crate::cli) async fn termination(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if is_termination(signal) {
                return signal;
            }
        }
    }

    /// The next signal. Cancel-safe.
    pub(in crate::cli) async fn next(&mut self) -> Signal {
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

/// Whether the signal asks the program to exit.
pub(super) fn is_termination(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
}

/// Whether to forward the signal to the whole group, as a terminal does. Others go to the command only, which forwards
/// them to its children as it sees fit.
pub(super) fn is_for_group(signal: Signal) -> bool {
    !matches!(signal, Signal::SIGTERM | Signal::SIGUSR1 | Signal::SIGUSR2)
}

/// One bit for each ignored signal, the lowest first; 0 if the system does not provide the mask.
fn ignored_mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_parsed() {
        assert_eq!(ignored_mask("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t00\n"), 0x1001);
        assert_eq!(ignored_mask(""), 0);
    }

    #[test]
    fn signals_of_a_terminal_go_to_the_group_and_others_to_the_command() {
        assert!(is_for_group(Signal::SIGINT) && is_for_group(Signal::SIGCONT));
        assert!(!is_for_group(Signal::SIGTERM) && !is_for_group(Signal::SIGUSR1));
        assert!(is_termination(Signal::SIGHUP) && !is_termination(Signal::SIGWINCH));
    }
}
