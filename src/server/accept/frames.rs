//! The frames of HTTP/2 that a client sends: those on which h2 sets no bound, and the bytes for calls.
//!
//! A SETTINGS frame of 15 bytes changes the window of each open stream, of which a connection has thousands. h2 does
//! that at once and without a bound: 64 KiB of such frames occupy a thread for most of a second. A PING costs only its
//! answer, and h2 reads no further until that is sent, so turns are enough for it.

/// The most SETTINGS frames in the life of a connection. Clients send one at the beginning, acknowledge that of the
/// server, and may enlarge their window some ten times when they find that the line is fast.
const SETTINGS_MAX: u32 = 128;

/// The length of a frame's head: 3 bytes of length, then type, flags and stream.
const HEAD: usize = 9;
const DATA: u8 = 0;
const SETTINGS: u8 = 4;

/// Follows the frames of a connection.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The head of the next frame, as far as it has arrived.
    head: [u8; HEAD],
    arrived: usize,
    /// The bytes of the current frame that have not arrived.
    rest: usize,
    /// The current frame has bytes for a call.
    is_data: bool,
    settings: u32,
}

impl Frames {
    /// Takes the next bytes of the connection. Returns how many of them are for calls; `None` if the client has sent
    /// too many SETTINGS frames.
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
                self.settings += u32::from(kind == SETTINGS);
                if self.settings > SETTINGS_MAX {
                    return None;
                }
            }
        }
        Some(data)
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

    #[test]
    fn frames_are_counted_however_their_bytes_arrive() {
        let others = [frame(DATA, 70_000), frame(1, 3), frame(6, 8), frame(SETTINGS, 6)].concat();
        let bytes = others.repeat(usize::try_from(SETTINGS_MAX).unwrap());
        for size in [1, 2, 8, 9, 10, 4_096, bytes.len()] {
            let mut frames = Frames::default();
            let data: u64 = bytes.chunks(size).map(|chunk| frames.take(chunk).unwrap()).sum();
            assert_eq!((frames.settings, data), (SETTINGS_MAX, 70_000 * u64::from(SETTINGS_MAX)), "{size}");
            assert_eq!(frames.take(&frame(DATA, 9)), Some(9), "{size}");
            let mut settings = frame(SETTINGS, 0).into_iter();
            assert!(settings.by_ref().take(HEAD - 1).all(|byte| frames.take(&[byte]) == Some(0)), "{size}");
            assert_eq!(frames.take(settings.as_slice()), None, "{size}");
        }
    }
}
