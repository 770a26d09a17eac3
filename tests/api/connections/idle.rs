//! Many idle connections, beside leases that streams keep alive.

use crate::{
    binary::Server,
    bounds::{connect_from, raise_limit_of_open_files, started},
    kept::Kept,
    support::within,
    tls_server::addr,
};
use bytes::Bytes;
use h2::client::SendRequest;
use std::net::SocketAddr;
use tokio::{
    io::AsyncReadExt,
    task::{JoinHandle, JoinSet},
};

/// Idle connections, unless `FENCEPOST_IDLE` is set.
const CONNECTIONS: usize = 2_000;
/// IP addresses from which they come.
const PEERS: usize = 10;
/// Connections that start at a time, well below the server's bound.
const AT_ONCE: usize = 64;

/// A connection that answers pings.
struct Idle {
    calls: SendRequest<Bytes>,
    task: JoinHandle<Result<(), h2::Error>>,
}

impl Idle {
    async fn open(number: usize, to: SocketAddr) -> Self {
        let stream = within(connect_from(&format!("127.0.0.{}", 2 + number % PEERS), to)).await;
        let (calls, connection) = within(h2::client::handshake(stream)).await.unwrap();
        Self { calls, task: tokio::spawn(connection) }
    }

    /// Gets a lock, of which only the beginning of the answer counts.
    async fn call(self, to: SocketAddr) {
        let mut calls = within(self.calls.ready()).await.unwrap();
        let request = http::Request::post(format!("http://{to}/fencepost.v1.LockService/Get"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (response, mut message) = calls.send_request(request, false).unwrap();
        // Not compressed, three bytes: the lock "a".
        message.send_data(Bytes::from_static(&[0, 0, 0, 0, 3, 10, 1, b'a']), true).unwrap();
        assert!(within(response).await.unwrap().headers().get("grpc-status").is_none());
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_stay_open_and_cost_no_lease() {
    raise_limit_of_open_files();
    let count = std::env::var("FENCEPOST_IDLE").map_or(CONNECTIONS, |count| count.parse().unwrap());
    let server = Server::start();
    let to = addr(&server);
    let burden = async {
        let (mut starting, mut idle) = (JoinSet::new(), Vec::new());
        for number in 0..count {
            if starting.len() == AT_ONCE {
                idle.push(starting.join_next().await.unwrap().unwrap());
            }
            starting.spawn(Idle::open(number, to));
        }
        idle.extend(starting.join_all().await);
        // The last one does not answer its first ping. When it is closed, the others have answered theirs.
        let mut silent = started(connect_from("127.0.0.1", to).await).await;
        let _ = within(silent.read_to_end(&mut Vec::new())).await;
        for connection in idle {
            connection.call(to).await;
        }
    };
    Kept::new(to).await.beside(burden).await;
    println!("{count} idle connections, no lease lost");
}
