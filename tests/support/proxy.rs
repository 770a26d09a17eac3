//! A proxy for Redis that drops all replies from a chosen command on, breaks connections, delays replies, or passes on
//! few bytes in a second.
#![allow(dead_code, reason = "no test uses all of it")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex, mpsc, watch},
    task::JoinHandle,
    time::Instant,
};

/// Bytes of requests that are passed on at a time: few, so that connections take turns where there is a bound.
const AT_A_TIME: usize = 8 * 1024;
/// What no request contains.
const NO_WORD: &[u8] = b"a word that no request contains";

/// The state of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Drops replies from the chosen command on.
    DroppingReplies,
    /// All connections are broken, and new ones are closed at once.
    Broken,
    /// Forwards everything.
    Open,
}

/// Dropped, it stops listening. Its connections end when one side closes them.
pub(crate) struct Proxy {
    addr: SocketAddr,
    seen: Arc<AtomicUsize>,
    state: watch::Sender<State>,
    listening: JoinHandle<()>,
    pace: Arc<Pace>,
}

impl Proxy {
    /// A proxy for this port that drops all replies from the reply to the first command with this name on.
    pub(crate) async fn dropping_replies_from(command: &str, port: u16) -> Self {
        Self::start(format!("\r\n{command}\r\n").as_bytes(), port, Duration::ZERO).await
    }

    /// A proxy for this port that delays each reply.
    pub(crate) async fn slow(delay: Duration, port: u16) -> Self {
        Self::start(NO_WORD, port, delay).await
    }

    /// Passes on so many bytes of requests in a second from now on, of all connections together.
    pub(crate) fn narrows(&self, bytes_per_second: u32) {
        self.pace.bytes_per_second.store(bytes_per_second, Ordering::SeqCst);
    }

    async fn start(word: &[u8], port: u16, delay: Duration) -> Self {
        let pace = Arc::<Pace>::default();
        let of_all = pace.clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, seen) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let (count, word) = (seen.clone(), Arc::<[u8]>::from(word));
        let state = watch::Sender::new(State::DroppingReplies);
        let now = state.subscribe();
        let listening = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                if *now.borrow() == State::Broken {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                let (late, on_time) = mpsc::unbounded_channel();
                spawn_until_broken(&now, requests((near_in, far_out), word.clone(), count.clone(), of_all.clone()));
                spawn_until_broken(&now, replies(far_in, late, count.clone(), now.clone(), delay));
                spawn_until_broken(&now, deliver(on_time, near_out));
            }
        });
        Self { addr, seen, state, listening, pace }
    }

    /// Breaks all connections, and refuses new ones.
    pub(crate) fn break_off(&self) {
        self.state.send_replace(State::Broken);
    }

    /// Drops all replies from the next command with the chosen name on.
    pub(crate) fn drop_replies_from_next(&self) {
        self.seen.store(0, Ordering::SeqCst);
        self.state.send_replace(State::DroppingReplies);
    }

    /// Forwards everything from now on.
    pub(crate) fn open(&self) {
        self.state.send_replace(State::Open);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// The number of commands with the chosen name.
    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn spawn_until_broken(state: &watch::Receiver<State>, carry: impl Future<Output = ()> + Send + 'static) {
    let mut state = state.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = carry => {}
            _ = state.wait_for(|state| *state == State::Broken) => {}
        }
    });
}

/// How fast requests are passed on.
#[derive(Default)]
struct Pace {
    /// 0 if there is no bound.
    bytes_per_second: AtomicU32,
    /// Held by the connection whose bytes are on their way.
    turn: Mutex<()>,
}

impl Pace {
    async fn passes(&self, bytes: usize) {
        let bound = self.bytes_per_second.load(Ordering::SeqCst);
        if bound > 0 {
            let _turn = self.turn.lock().await;
            tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / f64::from(bound))).await;
        }
    }
}

async fn requests(
    (mut from, mut to): (OwnedReadHalf, OwnedWriteHalf),
    word: Arc<[u8]>,
    seen: Arc<AtomicUsize>,
    pace: Arc<Pace>,
) {
    let (mut buffer, mut recent) = (vec![0; AT_A_TIME], Vec::new());
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        pace.passes(count).await;
        // A read may end in the middle of the word.
        recent.extend_from_slice(&buffer[..count]);
        let found = recent.windows(word.len()).filter(|part| *part == &*word).count();
        seen.fetch_add(found, Ordering::SeqCst);
        recent.drain(..recent.len().saturating_sub(word.len() - 1));
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn replies(
    mut from: OwnedReadHalf,
    to: mpsc::UnboundedSender<Late>,
    seen: Arc<AtomicUsize>,
    state: watch::Receiver<State>,
    delay: Duration,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let dropped = seen.load(Ordering::SeqCst) > 0 && *state.borrow() == State::DroppingReplies;
        if !dropped && to.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
            return;
        }
    }
}

/// Bytes, and when to deliver them.
type Late = (Instant, Vec<u8>);

async fn deliver(mut from: mpsc::UnboundedReceiver<Late>, mut to: OwnedWriteHalf) {
    while let Some((when, bytes)) = from.recv().await {
        tokio::time::sleep_until(when).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
