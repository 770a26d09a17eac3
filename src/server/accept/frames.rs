//! The frames of HTTP/2 that a client sends: those on which h2 sets no bound, and the bytes for calls.
//!
//! A SETTINGS frame of 15 bytes changes the window of each open stream, of which a connection has thousands. h2 does
//! that at once and without a bound: 64 KiB of such frames occupy a thread for most of a second. A PING costs only its
//! answer, and h2 reads no further until that is sent, so turns are enough for it.

use std::time::Duration;
use tokio::time::Instant;

/// SETTINGS frames that a connection may send at once. Clients send one at the beginning, acknowledge that of the
/// server, and may enlarge their window some ten times when they find that the line is fast.
const SETTINGS_MAX: u32 = 128;
/// After each of these a connection may send one more, up to [`SETTINGS_MAX`]: a client that goes on measuring its line
/// (gRPC's C core does) sends some in each hour, and connections live for weeks.
const SETTINGS_PERIOD: Duration = Duration::from_secs(1);

/// The length of a frame's head: 3 bytes of length, then type, flags and stream.
const HEAD: usize = 9;
const DATA: u8 = 0;
const SETTINGS: u8 = 4;

/// Follows the frames of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    /// The head of the next frame, as far as it has arrived.
    head: [u8; HEAD],
    arrived: usize,
    /// The bytes of the current frame that have not arrived.
    rest: usize,
    /// The current frame has bytes for a call.
    is_data: bool,
    /// How many SETTINGS frames may come, and since when no period has been added to them.
    settings: (u32, Instant),
}

impl Frames {
    /// A connection that begins.
    pub(super) fn new(now: Instant) -> Self {
        Self { head: [0; HEAD], arrived: 0, rest: 0, is_data: false, settings: (SETTINGS_MAX, now) }
    }

    /// Takes the next bytes of the connection. Returns how many of them are for calls; `None` if the client sends too
    /// many SETTINGS frames.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Option<u64> {
        let mut data = 0;
        while !bytes.is_empty() {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = &bytes[skipped..];
            data += if self.is_data { skipped as u64 } else { 0 };
            let (now, later) = bytes.split_at(bytes.len().min(HEAD - self.arrived));
            self.head[self.arrived..self.arrived + now.len()].copy_from_slice(now);
            self.arrived += now.len();
            bytes = later;
            if self.arrived == HEAD {
                let [high, middle, low, kind, ..] = self.head;
                self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                self.arrived = 0;
                self.is_data = kind == DATA;
                if kind == SETTINGS {
                    self.take_settings(Instant::now())?;
                }
            }
        }
        Some(data)
    }

    fn take_settings(&mut self, now: Instant) -> Option<()> {
        let (left, since) = &mut self.settings;
        let periods =
            u32::try_from(now.duration_since(*since).as_secs() / SETTINGS_PERIOD.as_secs()).unwrap_or(u32::MAX);
        *left = left.saturating_add(periods).min(SETTINGS_MAX).checked_sub(1)?;
        *since += SETTINGS_PERIOD * periods;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let [.., high, middle, low] = payload.to_be_bytes();
        // The payload looks like heads of SETTINGS frames.
        [vec![high, middle, low, kind, 0, 0, 0, 0, 1], vec![SETTINGS; payload]].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_counted_however_their_bytes_arrive() {
        let others = [frame(DATA, 70_000), frame(1, 3), frame(6, 8), frame(SETTINGS, 6)].concat();
        let bytes = others.repeat(usize::try_from(SETTINGS_MAX).unwrap());
        for size in [1, 2, 8, 9, 10, 4_096, bytes.len()] {
            let mut frames = Frames::new(Instant::now());
            let data: u64 = bytes.chunks(size).map(|chunk| frames.take(chunk).unwrap()).sum();
            assert_eq!((frames.settings.0, data), (0, 70_000 * u64::from(SETTINGS_MAX)), "{size}");
            assert_eq!(frames.take(&frame(DATA, 9)), Some(9), "{size}");
            let mut settings = frame(SETTINGS, 0).into_iter();
            assert!(settings.by_ref().take(HEAD - 1).all(|byte| frames.take(&[byte]) == Some(0)), "{size}");
            assert_eq!(frames.take(settings.as_slice()), None, "{size}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_lives_long_may_send_more_but_not_more_at_once() {
        let settings = frame(SETTINGS, 6);
        let mut frames = Frames::new(Instant::now());
        for _ in 0..10 * SETTINGS_MAX {
            tokio::time::advance(SETTINGS_PERIOD).await;
            assert_eq!(frames.take(&settings), Some(0));
        }
        tokio::time::advance(SETTINGS_PERIOD * 3 * SETTINGS_MAX).await;
        assert!((0..SETTINGS_MAX).all(|_| frames.take(&settings) == Some(0)));
        assert_eq!(frames.take(&settings), None);
    }
}
