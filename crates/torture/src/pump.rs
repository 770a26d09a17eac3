//! One connection through a [link](crate::proxy): copies its bytes in both directions, as the link's mode says.

use crate::proxy::{Flow, State};
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

/// The destination of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Upstream {
    Tcp(u16),
    Unix(PathBuf),
}

/// An accepted connection.
pub(crate) struct Accepted {
    pub(crate) near: TcpStream,
    pub(crate) watching: watch::Receiver<State>,
    pub(crate) affected: Arc<AtomicU64>,
}

/// Copies until either end closes or the link resets the connection.
pub(crate) async fn forward(accepted: Accepted) {
    let Accepted { mut near, mut watching, affected } = accepted;
    let _ = near.set_nodelay(true);
    let generation = watching.borrow().generation;
    if watching.borrow().mode.refuse {
        affected.fetch_add(1, Ordering::Relaxed);
        return reset_when_dropped(&near);
    }
    let is_open = |state: &State| state.generation != generation || state.mode.outbound != Flow::Hold;
    let Ok(state) = watching.wait_for(is_open).await.map(|state| state.clone()) else { return };
    let Some(upstream) = state.upstream.filter(|_| state.generation == generation) else {
        return reset_when_dropped(&near);
    };
    let is_cut = match upstream {
        Upstream::Tcp(port) => {
            let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return reset_when_dropped(&near) };
            let _ = far.set_nodelay(true);
            let is_cut = between(&mut near, &mut far, &watching, &affected, generation).await;
            if is_cut {
                reset_when_dropped(&far);
            }
            is_cut
        }
        Upstream::Unix(path) => {
            let Ok(mut far) = UnixStream::connect(path).await else { return reset_when_dropped(&near) };
            between(&mut near, &mut far, &watching, &affected, generation).await
        }
    };
    if is_cut {
        // The far end is closed by now. A half-open near end is reset later.
        let _ = watching.wait_for(|state| state.generation != generation || !state.mode.half_open).await;
        reset_when_dropped(&near);
    }
}

/// Makes the close a reset: the buffers are lost, and the other end sees a reset.
fn reset_when_dropped(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Returns whether the link cut the connection; otherwise an end closed it.
async fn between<F: AsyncRead + AsyncWrite + Unpin>(
    near: &mut TcpStream,
    far: &mut F,
    watching: &watch::Receiver<State>,
    affected: &AtomicU64,
    generation: u64,
) -> bool {
    let (near_in, near_out) = near.split();
    let (far_in, far_out) = tokio::io::split(far);
    let mut end = watching.clone();
    let outbound = pump(near_in, far_out, watching.clone(), affected, |state| state.mode.outbound);
    let inbound = pump(far_in, near_out, watching.clone(), affected, |state| state.mode.inbound);
    let over = |state: &State| state.generation != generation || state.mode.half_open || state.mode.refuse;
    tokio::select! {
        () = outbound => false,
        () = inbound => false,
        _ = end.wait_for(over) => { affected.fetch_add(1, Ordering::Relaxed); true }
    }
}

/// Copies one direction until the input ends or the output fails.
async fn pump<I, O>(
    mut input: I,
    mut output: O,
    mut watching: watch::Receiver<State>,
    affected: &AtomicU64,
    flow: impl Fn(&State) -> Flow,
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
        let now = flow(&watching.borrow());
        if now != Flow::Pass {
            affected.fetch_add(1, Ordering::Relaxed);
        }
        match now {
            Flow::Pass => {}
            Flow::Delay(time) => tokio::time::sleep(time).await,
            Flow::Discard => continue,
            Flow::Hold => {
                if watching.wait_for(|state| flow(state) != Flow::Hold).await.is_err() {
                    return;
                }
            }
        }
        if output.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
