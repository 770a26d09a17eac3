//! Parcels: the number of the layout in one byte, a message that says who sent it, and those of its frames.

use super::{
    Frame, FrameError, LAYOUT, LIST_MAX, MESSAGES_MAX, PARCEL_BYTES_FULL, PARCEL_BYTES_MAX, Parcel,
    message::{next_frame, put_frame},
    stream::{Messages, put},
    wire::ServerMessage,
};
use crate::store::quorum::ballot::ServerId;
use std::mem;

/// Room for a question or two, or for their replies.
const PARCEL_BYTES_USUAL: usize = 512;

impl Parcel {
    /// Its bytes. For what is sent see [`parcels`], which copies no text, and never makes what no server reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begun(self.from);
        for frame in &self.frames {
            put_frame(&mut out, frame.clone());
        }
        out
    }

    /// Reads a parcel.
    ///
    /// # Errors
    ///
    /// The bytes are those of another version of the server, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut messages = Messages::of(bytes, PARCEL_BYTES_MAX)?;
        let from = messages.next::<ServerMessage>()?.into();
        let mut frames = Vec::new();
        while !messages.is_at_end() {
            frames.push(next_frame(&mut messages)?);
        }
        Ok(Self { from, frames })
    }
}

/// Packs frames in their order into few parcels, each of which is encoded. One with several frames has at most
/// [`PARCEL_BYTES_FULL`]. A frame with a list of more than [`LIST_MAX`] is sent as several.
pub fn parcels(from: ServerId, frames: impl IntoIterator<Item = Frame>) -> Vec<Vec<u8>> {
    let mut packer = Packer { from, full: Vec::new(), open: begun(from), frames: 0, messages: 1 };
    for frame in frames {
        in_parts(frame, |part| packer.add(part));
    }
    if packer.frames > 0 {
        packer.full.push(packer.open);
    }
    packer.full
}

struct Packer {
    from: ServerId,
    full: Vec<Vec<u8>>,
    /// The parcel that is being packed, with so many frames, of so many messages.
    open: Vec<u8>,
    frames: usize,
    messages: usize,
}

impl Packer {
    fn add(&mut self, frame: Frame) {
        let before = self.open.len();
        let messages = put_frame(&mut self.open, frame);
        let fits = self.open.len() <= PARCEL_BYTES_FULL && self.messages + messages <= MESSAGES_MAX;
        if !fits && self.frames > 0 {
            let mut next = begun(self.from);
            next.extend_from_slice(&self.open[before..]);
            self.open.truncate(before);
            self.full.push(mem::replace(&mut self.open, next));
            (self.frames, self.messages) = (0, 1);
        }
        self.frames += 1;
        self.messages += messages;
    }
}

fn begun(from: ServerId) -> Vec<u8> {
    let mut out = Vec::with_capacity(PARCEL_BYTES_USUAL);
    out.push(LAYOUT);
    put(&mut out, &ServerMessage::from(from));
    out
}

/// A frame as several that say the same, each with a list of at most [`LIST_MAX`].
fn in_parts(frame: Frame, mut each: impl FnMut(Frame)) {
    match frame {
        Frame::Notices { mut first, notices } if notices.len() > LIST_MAX => {
            cut(notices, |notices, _| {
                let next = first.saturating_add(notices.len() as u64);
                each(Frame::Notices { first: mem::replace(&mut first, next), notices });
            });
        }
        Frame::Waiters { partition, ballot, not_after, waiters, is_last } if waiters.len() > LIST_MAX => {
            cut(waiters, |waiters, is_end| {
                each(Frame::Waiters { partition, ballot, not_after, waiters, is_last: is_last && is_end });
            });
        }
        Frame::Presented { partition, ballot, outcomes } if outcomes.len() > LIST_MAX => {
            cut(outcomes, |outcomes, _| each(Frame::Presented { partition, ballot, outcomes }));
        }
        // The others have no list, but for a page, which is never too long to be sent in one part.
        frame => each(frame),
    }
}

/// The parts of a list, each with whether it is the last.
fn cut<T>(list: Vec<T>, mut each: impl FnMut(Vec<T>, bool)) {
    let mut rest = list.into_iter();
    while rest.len() > 0 {
        let part = rest.by_ref().take(LIST_MAX).collect();
        each(part, rest.len() == 0);
    }
}
