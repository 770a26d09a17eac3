//! Lists in frames, with a bound on all entries of a message together: so a message costs the server that reads it
//! little more memory than its bytes, whatever they are.

use super::MESSAGES_MAX;
use minicbor::{
    Decode, Decoder, Encode, Encoder,
    decode::Error,
    encode::{self, Write},
};

/// The frames and the entries of their lists, of one message, so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries(usize);

impl AsMut<Self> for Entries {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Entries {
    pub(super) const fn count(self) -> usize {
        self.0
    }

    /// So many more are read.
    pub(super) fn read(&mut self, count: u64) -> Result<(), Error> {
        let all = usize::try_from(count).ok().and_then(|count| self.0.checked_add(count));
        self.0 = all.filter(|all| *all <= MESSAGES_MAX).ok_or_else(|| Error::message("it has too many entries"))?;
        Ok(())
    }
}

pub(super) fn encode<C: AsMut<Entries>, T: Encode<C>, W: Write>(
    list: &[T],
    to: &mut Encoder<W>,
    context: &mut C,
) -> Result<(), encode::Error<W::Error>> {
    context.as_mut().0 += list.len();
    to.array(list.len() as u64)?;
    list.iter().try_for_each(|each| each.encode(to, context))
}

pub(super) fn decode<'b, C: AsMut<Entries>, T: Decode<'b, C>>(
    from: &mut Decoder<'b>,
    context: &mut C,
) -> Result<Vec<T>, Error> {
    let count = from.array()?.ok_or_else(|| Error::message("a list does not tell its length"))?;
    context.as_mut().read(count)?;
    // Not made for so many at once: nobody knows yet whether there are.
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(T::decode(from, context)?);
    }
    Ok(list)
}
