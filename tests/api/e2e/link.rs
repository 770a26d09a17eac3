//! Links that can be made to fail.

use std::net::SocketAddr;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A link that can be frozen: connected, and silent, and so is what connects from then on.
pub(crate) async fn freezable_link(target: SocketAddr) -> (SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (freeze, frozen) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            let (mut inward, _) = listener.accept().await.unwrap();
            let mut frozen = frozen.clone();
            tokio::spawn(async move {
                if !*frozen.borrow() {
                    let mut outward = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut inward, &mut outward) => return,
                        () = async { drop(frozen.wait_for(|frozen| *frozen).await) } => {}
                    }
                    // Neither end is closed.
                    std::future::pending::<()>().await;
                }
                std::future::pending::<()>().await;
            });
        }
    });
    (addr, freeze)
}
