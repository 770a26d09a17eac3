//! Many idle connections, beside leases that streams keep alive.

use crate::{
    binary::Server,
    bounds::{connect_from, raise_limit_of_open_files, started},
    kept::Kept,
    raw_calls::RawCalls,
    support::within,
    tls_server::addr,
};
use std::net::SocketAddr;
use tokio::{io::AsyncReadExt, task::JoinSet};

/// Idle connections, unless `FENCEPOST_IDLE` is set.
const CONNECTIONS: usize = 2_000;
/// IP addresses from which they come.
const PEERS: usize = 10;
/// Connections that start at a time, well below the server's bound.
const AT_ONCE: usize = 64;

async fn open(number: usize, to: SocketAddr) -> RawCalls {
    RawCalls::open(within(connect_from(&format!("127.0.0.{}", 2 + number % PEERS), to)).await).await
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
            starting.spawn(open(number, to));
        }
        idle.extend(starting.join_all().await);
        // The last one does not answer its first ping. When it is closed, the others have answered theirs.
        let mut silent = started(connect_from("127.0.0.1", to).await).await;
        let _ = within(silent.read_to_end(&mut Vec::new())).await;
        for connection in idle {
            connection.call().await;
        }
    };
    Kept::new(to).await.beside(burden).await;
    println!("{count} idle connections, no lease lost");
}
