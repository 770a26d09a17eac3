//! A server in this process, with the API of the real one.

mod clients;
mod lock;
mod locks;
mod service;
mod session;
mod shared;

use shared::Shared;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tonic::transport::server::TcpIncoming;

/// A lock server inside of this process, for tests without the program: real clients connect to it over a socket, and
/// it fails when it is told to. Dropped, it ends with its connections.
///
/// It grants locks in order, and keeps, expires and lists them; it serves all calls of the lock service. It does not
/// check the limits of requests, remembers ended leases for ever, ignores `release_on_disconnect`, and has neither TLS
/// nor drains. For those use a [`Server`](super::Server).
///
/// It has a thread of its own, so tests with different runtimes may share one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fencepost_client::{Client, testing::FakeServer};
///
/// let server = FakeServer::start()?;
/// let client = Client::new(server.address())?;
/// let lock = client.acquire("orders/42").await?;
/// server.drop_reply();
/// assert!(lock.release().await?.was_held()); // the client asked again
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct FakeServer {
    address: String,
    shared: Arc<Shared>,
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Starts a server on a free port of 127.0.0.1.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let (address, shared) = (listener.local_addr()?.to_string(), Arc::new(Shared::default()));
        let (stop, stopped) = oneshot::channel();
        // The runtime is made and dropped by its thread, because a runtime may not be dropped inside another one.
        let (started, start) = mpsc::channel();
        let serving = shared.clone();
        let thread = std::thread::Builder::new().name("fencepost-fake".to_owned()).spawn(move || {
            let runtime = runtime(listener);
            let serve = runtime.map(|(runtime, incoming)| {
                let _starter_waits = started.send(Ok(()));
                runtime.block_on(service::serve(serving, incoming, stopped));
            });
            if let Err(error) = serve {
                let _starter_waits = started.send(Err(error));
            }
        })?;
        start.recv().map_err(io::Error::other)??;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, as [`Client::new`](crate::Client::new) takes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on nothing is answered and nothing is renewed, and connections stay open: leases run out.
    pub fn pause(&self) {
        self.shared.pause();
    }

    /// Ends a pause. Leases that ran out meanwhile have expired.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// Revokes the lease of a lock, as an operator does.
    pub fn lose(&self, name: &str) -> Result<(), NotHeld> {
        let lost = self.shared.change(|state, now| state.locks.revoke(name, now, &mut state.clients));
        if lost { Ok(()) } else { Err(NotHeld { name: name.to_owned() }) }
    }

    /// Drops the answer to the next acquire, release or renewal, together with its stream. What was asked for is done:
    /// the client asks again, with the same ids. Each call drops one answer.
    pub fn drop_reply(&self) {
        self.shared.change(|state, _| state.clients.drop_reply());
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Soon: the thread only drops its runtime. An error means that it has panicked, which was printed.
            let _ended = thread.join();
        }
    }
}

/// Nobody holds the lock that [`FakeServer::lose`] was asked to revoke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody holds lock {name:?}")]
pub struct NotHeld {
    /// The name of the lock.
    pub name: String,
}

/// A runtime that listens.
fn runtime(listener: TcpListener) -> io::Result<(Runtime, TcpIncoming)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok((runtime, TcpIncoming::from(listener).with_nodelay(Some(true))))
}
