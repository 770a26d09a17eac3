//! One connection through a [link](crate::proxy): its bytes, both ways, as the link's mode says at each of them.

use crate::proxy::{State, Way};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    sync::watch,
};

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    Tcp(u16),
    Unix(PathBuf),
}

/// A connection that was accepted.
pub(crate) struct Side {
    pub(crate) near: TcpStream,
    pub(crate) watching: watch::Receiver<State>,
    pub(crate) touched: Arc<AtomicU64>,
}

/// Carries until either end closes, or the link resets it.
pub(crate) async fn carry(side: Side) {
    let Side { mut near, mut watching, touched } = side;
    let _ = near.set_nodelay(true);
    let life = watching.borrow().life;
    if watching.borrow().mode.refuse {
        touched.fetch_add(1, Ordering::Relaxed);
        return reset_when_dropped(&near);
    }
    let heard = |state: &State| state.life != life || state.mode.forth != Way::Hold;
    let Ok(state) = watching.wait_for(heard).await.map(|state| state.clone()) else { return };
    let Some(upstream) = state.upstream.filter(|_| state.life == life) else { return reset_when_dropped(&near) };
    let is_cut = match upstream {
        Upstream::Tcp(port) => {
            let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return reset_when_dropped(&near) };
            let _ = far.set_nodelay(true);
            let is_cut = between(&mut near, &mut far, &watching, &touched, life).await;
            if is_cut {
                reset_when_dropped(&far);
            }
            is_cut
        }
        Upstream::Unix(path) => {
            let Ok(mut far) = UnixStream::connect(path).await else { return reset_when_dropped(&near) };
            between(&mut near, &mut far, &watching, &touched, life).await
        }
    };
    if is_cut {
        // The far end is gone by now. Half open, the near one is not told for a while.
        let _ = watching.wait_for(|state| state.life != life || !state.mode.half_open).await;
        reset_when_dropped(&near);
    }
}

/// Closed without a word: what is in its buffers is lost, and the other end sees a reset.
fn reset_when_dropped(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Whether the link cut it; otherwise one of the ends closed.
async fn between<F: AsyncRead + AsyncWrite + Unpin>(
    near: &mut TcpStream,
    far: &mut F,
    watching: &watch::Receiver<State>,
    touched: &AtomicU64,
    life: u64,
) -> bool {
    let (near_in, near_out) = near.split();
    let (far_in, far_out) = tokio::io::split(far);
    let mut end = watching.clone();
    let forth = pump(near_in, far_out, watching.clone(), touched, |state| state.mode.forth);
    let back = pump(far_in, near_out, watching.clone(), touched, |state| state.mode.back);
    let over = |state: &State| state.life != life || state.mode.half_open || state.mode.refuse;
    tokio::select! {
        () = forth => false,
        () = back => false,
        _ = end.wait_for(over) => { touched.fetch_add(1, Ordering::Relaxed); true }
    }
}

/// Ends when the input does, or the output cannot be written to.
async fn pump<I, O>(
    mut input: I,
    mut output: O,
    mut watching: watch::Receiver<State>,
    touched: &AtomicU64,
    way: impl Fn(&State) -> Way,
) where
    I: AsyncRead + Unpin,
    O: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = match input.read(&mut buffer).await {
            Ok(length) if length > 0 => length,
            _ => return,
        };
        let now = way(&watching.borrow());
        if now != Way::Pass {
            touched.fetch_add(1, Ordering::Relaxed);
        }
        match now {
            Way::Pass => {}
            Way::Delay(time) => tokio::time::sleep(time).await,
            Way::Discard => continue,
            Way::Hold => {
                if watching.wait_for(|state| way(state) != Way::Hold).await.is_err() {
                    return;
                }
            }
        }
        if output.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
