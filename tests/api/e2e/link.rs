//! Connections that can be frozen.

use std::net::SocketAddr;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A proxy that can be frozen. Its connections, including new ones, then stay open but silent.
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
                    // Keeps both ends open.
                    std::future::pending::<()>().await;
                }
                std::future::pending::<()>().await;
            });
        }
    });
    (addr, freeze)
}
