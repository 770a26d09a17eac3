//! Servers on Unix sockets.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fake;

use fake::Fake;
use fencepost_client::{
    Client, Tls,
    raw::{self, v1},
};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener};

/// Passes connections on to this server.
fn pass_on(listener: UnixListener, url: &str) {
    let address = url.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let address = address.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut server).await;
            });
        }
    });
}

#[tokio::test]
async fn locks_work_over_a_unix_socket() {
    let (fake, folder) = (Fake::start().await, tempfile::tempdir().unwrap());
    let path = folder.path().join("fencepost.sock");
    pass_on(UnixListener::bind(&path).unwrap(), &fake.url);
    for address in [format!("unix:{}", path.display()), format!("unix://{}", path.display())] {
        let client = Client::new(&address).unwrap();
        let lock = client.acquire("x").await.unwrap();
        assert!(lock.is_valid());
        lock.release().await.unwrap();
        raw::connect(&address.parse().unwrap(), &Tls::new()).await.unwrap();
    }
}

#[tokio::test]
async fn a_socket_that_nobody_serves_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", folder.path().join("nothing.sock").display());
    let client = Client::builder().server(address).retry_for(Duration::from_millis(100)).build().unwrap();
    let error = client.calls().get(v1::GetRequest::default()).await.unwrap_err();
    assert!(error.is_unreachable() && error.explanation().is_none(), "{error:?}");
}

#[tokio::test]
async fn a_socket_that_is_not_grpc_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"+OK\r\n").await;
        }
    });
    let address = format!("unix:{}", path.display());
    let client = Client::builder().server(&address).retry_for(Duration::from_millis(100)).build().unwrap();
    let error = client.calls().get(v1::GetRequest::default()).await.unwrap_err();
    assert!(error.not_grpc().is_some_and(|why| why.starts_with(&address)), "{error:?}");
}
