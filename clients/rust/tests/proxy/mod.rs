//! A TCP proxy whose connections fall silent, as behind a NAT that forgot them: they stay open and carry nothing more.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Proxy {
    pub(crate) address: String,
    silenced: watch::Sender<u32>,
    accepted: Arc<AtomicUsize>,
}

impl Proxy {
    /// In front of the server at this URL.
    pub(crate) async fn start(url: &str) -> Self {
        let server = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let proxy = Self { address, silenced: watch::Sender::new(0), accepted: Arc::default() };
        let (silenced, accepted) = (proxy.silenced.clone(), proxy.accepted.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(forward(stream, server.clone(), silenced.subscribe()));
            }
        });
        proxy
    }

    /// From now on the open connections carry nothing. New ones work.
    pub(crate) fn silence(&self) {
        self.silenced.send_modify(|count| *count += 1);
    }

    /// The number of connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

async fn forward(mut client: TcpStream, server: String, mut silenced: watch::Receiver<u32>) {
    let mut server = TcpStream::connect(server).await.unwrap();
    let is_silent = tokio::select! {
        _ended = copy_bidirectional(&mut client, &mut server) => false,
        _changed = silenced.changed() => true,
    };
    if is_silent {
        // Both sides stay open.
        std::future::pending::<()>().await;
    }
}
