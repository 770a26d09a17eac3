//! Bounds the memory of what clients have sent and no call has taken yet: messages in the windows of HTTP/2, of a
//! session that takes none because its client does not read, and messages of which only a part has arrived.
//!
//! HTTP/2 has a bound on each connection. Those of thousands of connections would fill the memory of any machine.
//!
//! The count of a connection is never too low. It is too high by what arrives for a call after its end, and by padding:
//! hardly anything in the life of a connection, unless its client is out to use up its share.

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all connections together, besides what each of them has free. Far more than a burst of calls of all clients
/// leaves unread for a moment, and little enough for a small machine.
const BACKLOG_MAX: usize = 256 * 1_024 * 1_024;
/// Bytes that each connection has free: what it reads in a turn, before its calls run.
const FREE: u64 = 64 * 1_024;
/// Bytes by which the share of a connection grows and shrinks, so that it seldom does.
const STEP: u64 = 64 * 1_024;

/// The length of what precedes a message: whether it is compressed, and 4 bytes of length.
const PREFIX: usize = 5;

/// The bound of a server.
#[derive(Clone, Debug)]
pub(super) struct Backlogs(Arc<Semaphore>);

impl Backlogs {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BACKLOG_MAX)))
    }

    /// The backlog of a new connection.
    pub(super) fn open(&self) -> Backlog {
        Backlog { all: self.0.clone(), arrived: 0, taken: Taken::default(), share: None }
    }
}

/// What has arrived on one connection and was not taken.
#[derive(Debug)]
pub(super) struct Backlog {
    all: Arc<Semaphore>,
    arrived: u64,
    taken: Taken,
    /// The part of the bound that the connection uses.
    share: Option<OwnedSemaphorePermit>,
}

impl Backlog {
    /// Counts bytes that have arrived for calls. Returns whether there is room for them.
    pub(super) fn arrive(&mut self, bytes: u64) -> bool {
        self.arrived += bytes;
        let waiting = self.arrived.saturating_sub(self.taken.0.load(Relaxed));
        let wanted = waiting.saturating_sub(FREE).next_multiple_of(STEP);
        let Ok(wanted) = usize::try_from(wanted) else { return false };
        let has = self.share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted < has {
            // Dropped, it makes room for others.
            self.share = self.share.take().and_then(|mut share| share.split(wanted));
        } else if wanted > has {
            let Ok(more) = u32::try_from(wanted - has) else { return false };
            let Ok(more) = self.all.clone().try_acquire_many_owned(more) else { return false };
            match &mut self.share {
                Some(share) => share.merge(more),
                none => *none = Some(more),
            }
        }
        true
    }

    /// What the calls of the connection have taken.
    pub(super) fn taken(&self) -> Taken {
        self.taken.clone()
    }
}

/// The bytes that the calls of a connection have taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(Arc<AtomicU64>);

impl Taken {
    /// The body of a request, which is counted when it is read.
    pub(super) fn count<B: HttpBody<Data = Bytes>>(&self, body: B) -> TakenBody<B> {
        TakenBody { body, taken: self.clone(), message: Message::default() }
    }

    fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }
}

/// The message that is arriving. It stays in memory until all of it is there.
#[derive(Debug, Default)]
struct Message {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that have arrived.
    arrived: usize,
    /// Bytes of the message that have not arrived.
    rest: usize,
    /// Bytes that are kept.
    kept: u64,
}

impl Message {
    /// Takes the next bytes. Returns how many are kept no more, because their messages are whole.
    fn take(&mut self, mut bytes: &[u8]) -> u64 {
        let mut whole = 0;
        while !bytes.is_empty() {
            let part = if self.arrived < PREFIX { PREFIX - self.arrived } else { self.rest }.min(bytes.len());
            let (now, later) = bytes.split_at(part);
            if self.arrived < PREFIX {
                self.prefix[self.arrived..self.arrived + part].copy_from_slice(now);
                self.arrived += part;
                let [_, length @ ..] = self.prefix;
                self.rest = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            } else {
                self.rest -= part;
            }
            self.kept += part as u64;
            if self.arrived == PREFIX && self.rest == 0 {
                whole += std::mem::take(&mut self.kept);
                self.arrived = 0;
            }
            bytes = later;
        }
        whole
    }
}

pin_project! {
    /// The body of a request. Dropped, nothing of it is in memory any more.
    pub(super) struct TakenBody<B>
    where
        B: HttpBody<Data = Bytes>,
    {
        #[pin]
        body: B,
        taken: Taken,
        message: Message,
    }

    impl<B> PinnedDrop for TakenBody<B>
    where
        B: HttpBody<Data = Bytes>,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            this.taken.add(this.message.kept);
            let mut context = Context::from_waker(Waker::noop());
            while !this.body.is_end_stream()
                && let Poll::Ready(Some(Ok(frame))) = this.body.as_mut().poll_frame(&mut context)
            {
                this.taken.add(frame.data_ref().map_or(0, |data| data.len() as u64));
            }
        }
    }
}

impl<B: HttpBody<Data = Bytes>> HttpBody for TakenBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.taken.add(this.message.take(data));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1_024 * 1_024;

    fn free(all: &Backlogs) -> u64 {
        all.0.available_permits() as u64
    }

    #[test]
    fn what_connections_have_not_taken_is_bounded_and_free_again_when_taken() {
        let all = Backlogs::new();
        let (mut one, mut other) = (all.open(), all.open());
        let max = BACKLOG_MAX as u64;
        assert!(one.arrive(FREE));
        assert_eq!(free(&all), max, "a connection has this free");
        assert!(one.arrive(1));
        assert_eq!(free(&all), max - STEP);
        assert!(one.arrive(200 * MIB));
        assert!(other.arrive(50 * MIB) && !other.arrive(10 * MIB));
        one.taken().add(100 * MIB);
        assert!(one.arrive(0) && other.arrive(0));
        assert_eq!(free(&all), max - (100 * MIB + STEP) - (60 * MIB - FREE));
        one.taken().add(100 * MIB + 1);
        assert!(one.arrive(0));
        drop(other);
        assert_eq!(free(&all), max);
    }

    #[test]
    fn a_message_is_kept_until_it_is_whole() {
        let bytes: Vec<u8> =
            [vec![0, 0, 0, 0, 3, 1, 2, 3], vec![0; PREFIX], vec![0, 0, 0, 1, 1], vec![9; 256]].concat();
        for size in 1..=bytes.len() {
            let mut message = Message::default();
            let whole: u64 = bytes.chunks(size).map(|part| message.take(part)).sum();
            assert_eq!((whole, message.kept), (13, 5 + 256), "{size}");
            assert_eq!((message.take(&[9]), message.kept), (5 + 257, 0), "{size}");
        }
    }

    #[test]
    fn a_body_that_is_dropped_has_been_taken() {
        let bytes = Bytes::from_static(&[0, 0, 0, 0, 9, 1]);
        let taken = Taken::default();
        let mut body = taken.count(http_body_util::Full::new(bytes.clone()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
        assert_eq!(taken.0.load(Relaxed), 0);
        drop(body);
        assert_eq!(taken.0.load(Relaxed), 6);
        drop(taken.count(http_body_util::Full::new(bytes)));
        assert_eq!(taken.0.load(Relaxed), 12);
    }
}
