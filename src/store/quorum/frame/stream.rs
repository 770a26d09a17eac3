//! Messages one after the other: each after its length. They are read one by one, so that what a server sends costs the
//! one that reads it little more memory than its bytes, whatever they are.

use super::{FrameError, LAYOUT, MESSAGE_BYTES_MAX, MESSAGES_MAX};
use crate::store::fields::FieldError;
use prost::Message;

/// Adds a message.
pub(super) fn put(out: &mut Vec<u8>, message: &impl Message) {
    message.encode_length_delimited(out).unwrap_or_else(|_| unreachable!("a Vec grows"));
}

/// Messages that are still to be read.
#[derive(Clone)]
pub(super) struct Messages<'a> {
    rest: &'a [u8],
    /// How many have been read.
    read: usize,
}

impl<'a> Messages<'a> {
    /// Those behind the number of the layout, in at most so many bytes.
    pub(super) fn of(bytes: &'a [u8], bytes_max: usize) -> Result<Self, FrameError> {
        if bytes.len() > bytes_max {
            return Err(FrameError::TooLong(bytes.len(), bytes_max));
        }
        match bytes.split_first() {
            None => Err(FrameError::Empty),
            Some((&LAYOUT, rest)) => Ok(Self { rest, read: 0 }),
            Some((layout, _)) => Err(FrameError::OtherLayout(*layout)),
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next one.
    pub(super) fn next<M: Message + Default>(&mut self) -> Result<M, FrameError> {
        if self.read == MESSAGES_MAX {
            return Err(FrameError::TooMany);
        }
        self.read += 1;
        if self.is_at_end() {
            return Err(FrameError::CutOff);
        }
        let length = prost::decode_length_delimiter(&mut self.rest)?;
        if length > MESSAGE_BYTES_MAX {
            return Err(FrameError::LongMessage(length));
        }
        let (message, rest) = self.rest.split_at_checked(length).ok_or(FrameError::CutOff)?;
        self.rest = rest;
        Ok(M::decode(message)?)
    }

    /// The next ones, so many of them.
    pub(super) fn list<M: Message + Default, T>(
        &mut self,
        count: u64,
        read: impl Fn(M) -> Result<T, FieldError>,
    ) -> Result<Vec<T>, FrameError> {
        // Not made for so many at once: nobody knows yet whether there are.
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self.next()?)?);
        }
        Ok(list)
    }
}
