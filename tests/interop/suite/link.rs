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

/// What clients did so far.
#[derive(Default)]
struct Traffic {
    connections: AtomicUsize,
    /// Bytes, also those that are held back.
    requests: AtomicUsize,
}

/// Dropped, it cuts its connections and stops listening.
pub(crate) struct Link {
    /// For clients.
    pub(crate) address: String,
    flow: watch::Sender<Flow>,
    traffic: Arc<Traffic>,
    listening: JoinHandle<()>,
}

impl Link {
    /// Listens on a free port and forwards to a server.
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let flow = watch::Sender::new(Flow { requests: true, responses: true, cuts: 0 });
        let (flows, traffic, server) = (flow.subscribe(), Arc::<Traffic>::default(), server.to_owned());
        let seen = traffic.clone();
        let listening = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                seen.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(carry(near, server.clone(), flows.clone(), seen.clone()));
            }
        });
        Self { address, flow, traffic, listening }
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

    /// How many connections clients have made.
    pub(crate) fn connections(&self) -> usize {
        self.traffic.connections.load(Ordering::SeqCst)
    }

    /// How many bytes clients have sent, also if they are held back.
    pub(crate) fn requests(&self) -> usize {
        self.traffic.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn carry(near: TcpStream, server: String, flow: watch::Receiver<Flow>, traffic: Arc<Traffic>) {
    let (mut cut, cuts) = (flow.clone(), flow.borrow().cuts);
    // Without a server, the connection ends.
    let Ok(far) = TcpStream::connect(&server).await else { return };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let responses = AtomicUsize::new(0);
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::select! {
        // First: what was held back is lost by the cut. Also when the link is dropped.
        biased;
        _ = cut.wait_for(|flow| flow.cuts > cuts) => {}
        () = forward(near_in, far_out, flow.clone(), |flow| flow.requests, &traffic.requests) => {}
        () = forward(far_in, near_out, flow.clone(), |flow| flow.responses, &responses) => {}
    }
}

/// Ends with the connection.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut flow: watch::Receiver<Flow>,
    passes: impl Fn(&Flow) -> bool,
    bytes: &AtomicUsize,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        bytes.fetch_add(count, Ordering::SeqCst);
        if flow.wait_for(&passes).await.is_err() || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
