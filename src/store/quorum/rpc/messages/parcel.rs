//! Parcels: one byte with the number of the layout, the sender, the frames.

use super::{
    Frame, FrameError, HEARTBEAT_BYTES_MAX, Heartbeat, LAYOUT, LIST_MAX, MESSAGES_MAX, PARCEL_BYTES_FULL, Parcel,
    list::Entries,
};
use crate::store::quorum::{nodes::client::PARCEL_BYTES_MAX, paxos::ballot::ServerId};
use minicbor::{Decoder, Encode};
use std::mem;

/// Room for a command or two, or for their replies.
const PARCEL_BYTES_USUAL: usize = 512;

impl Parcel {
    /// Its bytes. For what is sent see [`parcels`], which never makes what no server reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begun(self.from);
        for frame in &self.frames {
            put(&mut out, frame);
        }
        out
    }

    /// Reads a parcel.
    ///
    /// # Errors
    ///
    /// The bytes are those of another version of the server, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let rest = behind_layout(bytes, PARCEL_BYTES_MAX)?;
        let (mut decoder, mut entries) = (Decoder::new(rest), Entries::default());
        entries.read(1)?;
        let (from, mut frames) = (decoder.decode()?, Vec::new());
        while decoder.position() < rest.len() {
            entries.read(1)?;
            frames.push(decoder.decode_with(&mut entries)?);
        }
        Ok(Self { from, frames })
    }
}

impl Heartbeat {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT];
        put(&mut out, self);
        out
    }

    /// Reads the heartbeat of another server.
    ///
    /// # Errors
    ///
    /// The bytes are those of another version of the server, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let rest = behind_layout(bytes, HEARTBEAT_BYTES_MAX)?;
        let mut decoder = Decoder::new(rest);
        let heartbeat = decoder.decode_with(&mut Entries::default())?;
        if decoder.position() < rest.len() {
            return Err(FrameError::Damaged("more follows it".to_owned()));
        }
        Ok(heartbeat)
    }
}

/// Adds a value. The number of entries of its lists.
fn put(out: &mut Vec<u8>, value: &impl Encode<Entries>) -> usize {
    let mut entries = Entries::default();
    minicbor::encode_with(value, out, &mut entries).unwrap_or_else(|_| unreachable!("a Vec grows"));
    entries.count()
}

/// The bytes behind the number of the layout, which is that of this server.
fn behind_layout(bytes: &[u8], bytes_max: usize) -> Result<&[u8], FrameError> {
    if bytes.len() > bytes_max {
        return Err(FrameError::TooLong(bytes.len(), bytes_max));
    }
    match bytes.split_first() {
        None => Err(FrameError::Empty),
        Some((&LAYOUT, rest)) => Ok(rest),
        Some((layout, _)) => Err(FrameError::OtherLayout(*layout)),
    }
}

/// Packs frames in their order into few parcels, each of which is encoded. One with several frames has at most
/// [`PARCEL_BYTES_FULL`]. A frame with a list of more than [`LIST_MAX`] is sent as several.
pub fn parcels(from: ServerId, frames: impl IntoIterator<Item = Frame>) -> Vec<Vec<u8>> {
    let mut packer = Packer { from, full: Vec::new(), open: begun(from), frames: 0, messages: 1 };
    for frame in frames {
        in_parts(frame, |part| packer.add(&part));
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
    fn add(&mut self, frame: &Frame) {
        let before = self.open.len();
        let messages = 1 + put(&mut self.open, frame);
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
    put(&mut out, &from);
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
