//! A proxy between a client and a server, whose connections can be silenced or cut.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What the proxy forwards, on open connections and new ones. What it holds back, it forwards later, unless the
/// connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    requests: bool,
    responses: bool,
    /// Increased when all open connections are cut.
    cuts: u32,
}

/// Dropped, it cuts its connections and stops listening.
pub(crate) struct Link {
    /// For clients.
    pub(crate) address: String,
    flow: watch::Sender<Flow>,
    accepted: Arc<AtomicUsize>,
    listening: JoinHandle<()>,
}

impl Link {
    /// Listens on a free port and forwards to a server.
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let flow = watch::Sender::new(Flow { requests: true, responses: true, cuts: 0 });
        let (flows, accepted, server) = (flow.subscribe(), Arc::new(AtomicUsize::new(0)), server.to_owned());
        let count = accepted.clone();
        let listening = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(carry(near, server.clone(), flows.clone()));
            }
        });
        Self { address, flow, accepted, listening }
    }

    /// Holds back the responses of the server.
    pub(crate) fn hold_responses(&self) {
        self.flow.send_modify(|flow| flow.responses = false);
    }

    /// Holds back everything: connections stay open but are silent, and so are new ones.
    pub(crate) fn hold_all(&self) {
        self.flow.send_modify(|flow| (flow.requests, flow.responses) = (false, false));
    }

    /// Forwards everything, also what was held back.
    pub(crate) fn pass(&self) {
        self.flow.send_modify(|flow| (flow.requests, flow.responses) = (true, true));
    }

    /// Cuts all connections. New ones are forwarded.
    pub(crate) fn cut(&self) {
        self.flow.send_modify(|flow| *flow = Flow { requests: true, responses: true, cuts: flow.cuts + 1 });
    }

    /// Whether a client has connected.
    pub(crate) fn is_used(&self) -> bool {
        self.accepted.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn carry(near: TcpStream, server: String, mut flow: watch::Receiver<Flow>) {
    let cuts = flow.borrow().cuts;
    // Without a server, the connection ends.
    let Ok(far) = TcpStream::connect(&server).await else { return };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::select! {
        () = forward(near_in, far_out, flow.clone(), |flow| flow.requests) => {}
        () = forward(far_in, near_out, flow.clone(), |flow| flow.responses) => {}
        // Also when the link is dropped.
        _ = flow.wait_for(|flow| flow.cuts > cuts) => {}
    }
}

/// Ends with the connection.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
    passes: impl Fn(&Flow) -> bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if flow.wait_for(&passes).await.is_err() || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
