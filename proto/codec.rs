//! Messages on the wire: prost, as tonic does it, with smaller buffers.

use prost::Message;
use std::marker::PhantomData;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// Bytes that a buffer has at first. Each call has one for its request and one for its response, and most messages have
/// less than 200 bytes. Allocators have blocks of this size at hand, but search for tonic's 8 KiB.
const BUFFER: usize = 1_024;
/// Bytes of messages of a stream that are sent together if they are ready at the same time: tonic's default.
const TOGETHER_MAX: usize = 32 * 1_024;

/// The codec of all methods, of clients and of servers.
#[derive(Debug)]
pub(crate) struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::new(BUFFER, TOGETHER_MAX))
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstDecoder::new(BufferSettings::new(BUFFER, TOGETHER_MAX))
    }
}
