//! Gives every connection its turn, however much others send.
//!
//! h2 reads whatever has arrived, and hyper spawns a task for each call in it. Tasks run in the order in which they
//! were spawned, so the answer to a beat would be read after thousands of calls that other connections began before.
//! So a turn of a connection reads a bounded number of bytes. For more it needs one of a few places, for which it waits
//! in line. A place is free again once the calls of its turn have run for the first time. A connection on which a few
//! messages have arrived needs none, so it does not wait, however long the line is.
//!
//! No client can keep a place: the turn gives it back, and so does each call when it has been polled once.
//!
//! A connection on which a response has begun, and others are awaited, lets the tasks that are ready run before its
//! turn. When the store answers many calls at once, tokio would run the connection after the first of them, because it
//! was woken last, and each response would go in a write of its own: 2.3 system calls for a pair of calls, in place of
//! 0.55. So they go together. What has arrived is read at once: a call that was cancelled before another client
//! released the lock is not to get it. A response that is alone, and a session, are written at once, too.

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take},
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::PollSemaphore;

/// Bytes that a connection reads in a turn without a place: some messages, less than a millisecond of work.
const READ_FREE: usize = 2 * 1_024;
/// Bytes that it reads with a place: some hundred calls, milliseconds of work. Rapid resets are noticed within them.
const READ_MAX: usize = 64 * 1_024;

/// The places of a server.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Semaphore>);

impl Turns {
    /// With a place for each worker of the runtime, and one that is read meanwhile.
    pub(super) fn new() -> Self {
        let workers = Handle::current().metrics().num_workers();
        Self(Arc::new(Semaphore::new(workers + 1)))
    }

    /// The turn of a new connection.
    pub(super) fn turn(&self) -> Arc<Turn> {
        let places = self.0.clone();
        Arc::new(Turn {
            places,
            bytes: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
            place: Mutex::new(None),
            unanswered: AtomicUsize::new(0),
            has_answered: AtomicBool::new(false),
        })
    }
}

type Place = Arc<OwnedSemaphorePermit>;

/// What a connection may do in its turn. Its future, its transport and its service share it, within one task.
#[derive(Debug)]
pub(super) struct Turn {
    places: Arc<Semaphore>,
    /// How many bytes it may still read.
    bytes: AtomicUsize,
    /// It has to wait for a place to read on.
    is_cut: AtomicBool,
    place: Mutex<Option<Place>>,
    /// Calls whose responses have not begun.
    unanswered: AtomicUsize,
    /// A response has begun since the last turn.
    has_answered: AtomicBool,
}

impl Turn {
    /// The transport, read within the turns of this connection.
    pub(super) fn reads<T: AsyncRead + Unpin>(self: &Arc<Self>, transport: T) -> ReadInTurns<T> {
        ReadInTurns { transport: transport.take(0), turn: self.clone() }
    }

    /// A call that begins in this turn.
    pub(super) fn begins<F: Future>(self: &Arc<Self>, call: F) -> Begun<F> {
        self.unanswered.fetch_add(1, Relaxed);
        Begun { call, place: self.place.lock().clone(), _unanswered: Unanswered(self.clone()) }
    }

    /// The future of the connection, polled in its turns.
    pub(super) fn serves<F: Future>(self: &Arc<Self>, serving: F) -> InTurns<F> {
        let places = PollSemaphore::new(self.places.clone());
        InTurns { serving, turn: self.clone(), places, has_let_others: false }
    }

    /// Whether responses may follow the one that has begun.
    fn expects_responses(&self) -> bool {
        self.has_answered.load(Relaxed) && self.unanswered.load(Relaxed) > 0
    }

    fn start(&self, place: Option<OwnedSemaphorePermit>) {
        self.has_answered.store(false, Relaxed);
        self.bytes.store(if place.is_some() { READ_MAX } else { READ_FREE }, Relaxed);
        self.is_cut.store(false, Relaxed);
        *self.place.lock() = place.map(Arc::new);
    }

    /// How many bytes may be read now.
    fn room(&self) -> usize {
        let bytes = self.bytes.load(Relaxed);
        if bytes > 0 {
            return bytes;
        }
        let mut place = self.place.lock();
        if place.is_none()
            && let Ok(free) = self.places.clone().try_acquire_owned()
        {
            *place = Some(Arc::new(free));
            self.bytes.store(READ_MAX, Relaxed);
            return READ_MAX;
        }
        self.is_cut.store(true, Relaxed);
        0
    }

    fn has_read(&self, bytes: usize) {
        self.bytes.store(self.bytes.load(Relaxed).saturating_sub(bytes), Relaxed);
    }
}

pin_project! {
    /// The future of a connection. If its turn was cut, it goes on when it has a place.
    pub(super) struct InTurns<F> {
        #[pin]
        serving: F,
        turn: Arc<Turn>,
        places: PollSemaphore,
        // It has let the tasks that are ready run, so now it is its turn.
        has_let_others: bool,
    }
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        *this.has_let_others = !*this.has_let_others && this.turn.expects_responses();
        if *this.has_let_others {
            // Tokio puts a task that wakes itself behind all that are ready.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let is_cut = this.turn.is_cut.load(Relaxed);
        this.turn.start(if is_cut { ready!(this.places.poll_acquire(context)) } else { None });
        let served = this.serving.poll(context);
        *this.turn.place.lock() = None;
        if this.turn.is_cut.load(Relaxed) {
            context.waker().wake_by_ref();
        }
        served
    }
}

pin_project! {
    /// A call. Keeps the place of its connection until it has been polled.
    pub(super) struct Begun<F> {
        #[pin]
        call: F,
        place: Option<Place>,
        _unanswered: Unanswered,
    }
}

/// A call whose response has not begun. Dropped, it has, or there will be none.
struct Unanswered(Arc<Turn>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Relaxed);
        self.0.has_answered.store(true, Relaxed);
    }
}

impl<F: Future> Future for Begun<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = this.call.poll(context);
        *this.place = None;
        polled
    }
}

/// The transport of a connection.
pub(super) struct ReadInTurns<T> {
    transport: Take<T>,
    turn: Arc<Turn>,
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadInTurns<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = self.turn.room();
        if room == 0 {
            // The connection wakes itself when its turn ends.
            return Poll::Pending;
        }
        let before = out.filled().len();
        self.transport.set_limit(room as u64);
        ready!(pin!(&mut self.transport).poll_read(context, out))?;
        self.turn.has_read(out.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ReadInTurns<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        pin!(self.transport.get_mut()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pin!(self.transport.get_mut()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(self.transport.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(self.transport.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, task::AtomicWaker};
    use std::future::{pending, poll_fn};

    #[tokio::test]
    async fn a_place_is_taken_until_the_calls_of_its_turn_have_run() {
        let turns = Turns(Arc::new(Semaphore::new(1)));
        let (busy, other) = (turns.turn(), turns.turn());
        let mut calls = Vec::new();
        let mut serve = Box::pin(busy.serves(poll_fn(|_| {
            assert_eq!(busy.room(), READ_FREE);
            calls.push(Box::pin(busy.begins(pending::<()>())));
            busy.has_read(READ_FREE);
            assert_eq!(busy.room(), READ_MAX);
            calls.push(Box::pin(busy.begins(pending::<()>())));
            Poll::<()>::Pending
        })));
        assert!(serve.as_mut().now_or_never().is_none());
        drop(serve);
        // The call that has begun with the place has not run.
        other.start(None);
        other.has_read(READ_FREE);
        assert_eq!(other.room(), 0);
        let last = calls.pop();
        assert!(calls.pop().and_then(FutureExt::now_or_never).is_none());
        assert_eq!(other.room(), 0);
        assert!(last.and_then(FutureExt::now_or_never).is_none());
        assert_eq!(other.room(), READ_MAX);
    }

    #[tokio::test]
    async fn a_connection_that_is_cut_waits_for_a_place_and_then_reads_on() {
        let turns = Turns(Arc::new(Semaphore::new(1)));
        let taken = turns.0.clone().try_acquire_owned().ok();
        let turn = turns.turn();
        let mut room = Vec::new();
        let mut serve = Box::pin(turn.serves(poll_fn(|_| {
            room.push(turn.room());
            turn.has_read(turn.room());
            assert_eq!(turn.room(), 0);
            Poll::<()>::Pending
        })));
        for _ in 0..2 {
            assert!(serve.as_mut().now_or_never().is_none());
        }
        drop(taken);
        assert!(serve.as_mut().now_or_never().is_none());
        drop(serve);
        assert_eq!(room, [READ_FREE, READ_MAX]);
    }

    /// Has a task serve a connection with so many calls, of which `answered` are answered at once. Returns how many
    /// responses each of its turns found.
    async fn turns_of(calls: usize, answered: usize) -> Vec<usize> {
        let turn = Turns(Arc::new(Semaphore::new(1))).turn();
        let (responses, connection) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicWaker::new()));
        let (answer, _) = tokio::sync::broadcast::channel::<()>(1);
        for call in 0..calls {
            let (responses, connection, mut answers) = (responses.clone(), connection.clone(), answer.subscribe());
            let begun = turn.begins(async move {
                if call >= answered {
                    pending::<()>().await;
                }
                assert!(answers.recv().await.is_ok());
            });
            // As hyper does: the response wakes the connection when the call has ended.
            tokio::spawn(async move {
                begun.await;
                responses.fetch_add(1, Relaxed);
                connection.wake();
            });
        }
        let (found, turns) = (responses.clone(), Arc::new(Mutex::new(Vec::new())));
        let (noted, waker) = (turns.clone(), connection.clone());
        let serving = turn.serves(poll_fn(move |context| {
            waker.register(context.waker());
            noted.lock().push(found.swap(0, Relaxed));
            Poll::<()>::Pending
        }));
        let task = tokio::spawn(serving);
        let settled = || async {
            for _ in 0..4 * calls {
                tokio::task::yield_now().await;
            }
        };
        settled().await;
        turns.lock().clear();
        assert!(answer.send(()).is_ok());
        settled().await;
        task.abort();
        let turns = turns.lock();
        turns.clone()
    }

    /// On a worker, because only that runs the task first that was woken last.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn responses_that_are_ready_together_have_one_turn() {
        for (calls, answered) in [(8, 8), (8, 3), (1, 1)] {
            assert_eq!(tokio::spawn(turns_of(calls, answered)).await.ok(), Some(vec![answered]));
        }
    }

    #[tokio::test]
    async fn only_a_connection_that_has_answered_one_call_of_several_lets_others_go_first() {
        let turn = Turns(Arc::new(Semaphore::new(1))).turn();
        let turns = AtomicUsize::new(0);
        let mut serve = Box::pin(turn.serves(poll_fn(|_| {
            turns.fetch_add(1, Relaxed);
            Poll::<()>::Pending
        })));
        let mut has_turn = || {
            assert!(serve.as_mut().now_or_never().is_none());
            turns.swap(0, Relaxed) == 1
        };
        let [one, other, last] = [(); 3].map(|()| turn.begins(pending::<()>()));
        assert!(has_turn() && has_turn(), "what arrives is read at once");
        drop(one);
        assert!(!has_turn(), "the other responses may be ready");
        assert!(has_turn() && has_turn(), "they are not");
        drop(other);
        assert!(!has_turn());
        drop(last);
        assert!(has_turn() && has_turn(), "no other response is awaited");
    }
}
