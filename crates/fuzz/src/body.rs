//! The client's side of a call: one message, or on a stream several, with pauses in which the server processes them.

use bytes::Bytes;
use http_body::{Body, Frame};
use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// In simulated time.
const PAUSE: Duration = Duration::from_secs(1);

enum Part {
    Message(Bytes),
    Pause,
    /// The client closes its half of the stream. Without it, the stream stays open until the client leaves.
    End,
}

/// A request body.
pub(crate) struct RequestBody {
    parts: VecDeque<Part>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    /// The body of a unary call.
    pub(crate) fn unary(message: &[u8]) -> Self {
        Self { parts: [Part::Message(Bytes::copy_from_slice(message)), Part::End].into(), pause: None }
    }

    /// The body of a stream. Any bytes are valid: each message follows a byte with its length; two special lengths
    /// stand for a pause and for the end.
    pub(crate) fn streaming(mut bytes: &[u8]) -> Self {
        let mut parts = VecDeque::new();
        while let Some((length, rest)) = bytes.split_first() {
            let (part, after) = match *length {
                PAUSE_BYTE => (Part::Pause, rest),
                END_BYTE => (Part::End, &[][..]),
                length => {
                    let (message, after) = rest.split_at(usize::from(length).min(rest.len()));
                    (Part::Message(Bytes::copy_from_slice(message)), after)
                }
            };
            parts.push_back(part);
            bytes = after;
        }
        Self { parts, pause: None }
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().filter_map(|part| match part {
            Part::Message(message) => Some(&message[..]),
            Part::Pause | Part::End => None,
        })
    }
}

const PAUSE_BYTE: u8 = 0xff;
const END_BYTE: u8 = 0xfe;

/// The bytes that [`RequestBody::streaming`] decodes to these messages, with a pause after each, and an end if `ends`
/// is set.
pub(crate) fn encode(messages: &[Vec<u8>], ends: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.push(u8::try_from(message.len()).ok().filter(|length| *length < END_BYTE).expect("it is short"));
        bytes.extend(message);
        bytes.push(PAUSE_BYTE);
    }
    bytes.extend(ends.then_some(END_BYTE));
    bytes
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match self.parts.pop_front() {
                Some(Part::Message(message)) => {
                    let mut frame = vec![0];
                    frame.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
                    frame.extend(&message);
                    return Poll::Ready(Some(Ok(Frame::data(frame.into()))));
                }
                Some(Part::Pause) => self.pause = Some(Box::pin(sleep(PAUSE))),
                Some(Part::End) => return Poll::Ready(None),
                None => return Poll::Pending,
            }
        }
    }
}
