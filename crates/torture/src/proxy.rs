//! A network link between two processes: a user-space proxy that simulates network faults.
//!
//! A black hole holds bytes back rather than losing them: after it is healed they arrive late, like TCP
//! retransmissions. Discarded bytes ([`Flow::Discard`]) make a connection unusable, so it is reset afterwards.

use crate::pump::{self, Accepted, Upstream};
use anyhow::Result;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flow {
    #[default]
    Pass,
    /// Held until healed.
    Hold,
    /// Delayed by this time.
    Delay(Duration),
    /// Discarded.
    Discard,
}

/// The mode of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// From the process that connected.
    pub(crate) outbound: Flow,
    /// To the process that connected.
    pub(crate) inbound: Flow,
    /// The far end is closed, and the near end is not told.
    pub(crate) half_open: bool,
    /// New connections are reset.
    pub(crate) refuse: bool,
}

/// The state that all connections of a link share.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    /// Incremented by resets: connections of an earlier generation are reset.
    pub(crate) generation: u64,
    pub(crate) upstream: Option<Upstream>,
}

/// A link. Closed when dropped.
pub(crate) struct Link {
    /// Its name in histories.
    pub(crate) name: String,
    /// The port that it listens on, on 127.0.0.1.
    pub(crate) port: u16,
    state: watch::Sender<State>,
    affected: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
        self.state.send_modify(|state| state.generation += 1);
    }
}

impl Link {
    /// Creates a link without an upstream.
    pub(crate) async fn new(name: String) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (state, watching) = watch::channel(State { mode: Mode::default(), generation: 0, upstream: None });
        let affected = Arc::new(AtomicU64::new(0));
        let accepting = tokio::spawn(accept(listener, watching, Arc::clone(&affected)));
        Ok(Self { name, port, state, affected, accepting })
    }

    /// Changes the upstream. Existing connections are reset.
    pub(crate) fn route_to(&self, upstream: Upstream) {
        self.state.send_modify(|state| {
            state.generation += 1;
            state.upstream = Some(upstream);
        });
    }

    /// Resets all connections.
    pub(crate) fn reset(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// Holds what is sent in both directions.
    pub(crate) fn hold(&self) {
        self.set(Mode { outbound: Flow::Hold, inbound: Flow::Hold, ..Mode::default() });
    }

    /// Restores the link. Connections that lost bytes or an end are reset.
    pub(crate) fn heal(&self) {
        self.state.send_modify(|state| {
            let useless =
                state.mode.half_open || state.mode.outbound == Flow::Discard || state.mode.inbound == Flow::Discard;
            state.generation += u64::from(useless);
            state.mode = Mode::default();
        });
    }

    /// How many bytes or connections were affected by a fault.
    pub(crate) fn affected(&self) -> u64 {
        self.affected.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, watching: watch::Receiver<State>, affected: Arc<AtomicU64>) {
    loop {
        match listener.accept().await {
            Ok((near, _)) => {
                let accepted = Accepted { near, watching: watching.clone(), affected: Arc::clone(&affected) };
                tokio::spawn(pump::forward(accepted));
            }
            // For example too many open files: retry later.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::timeout,
    };

    const MOMENT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(5);

    /// A link to an echo server.
    async fn echo() -> Result<Link> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let link = Link::new("test".to_owned()).await?;
        link.route_to(Upstream::Tcp(listener.local_addr()?.port()));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut input, mut output) = stream.split();
                    tokio::io::copy(&mut input, &mut output).await
                });
            }
        });
        Ok(link)
    }

    async fn read_byte(stream: &mut TcpStream, within: Duration) -> Option<std::io::Result<u8>> {
        timeout(within, stream.read_u8()).await.ok()
    }

    #[tokio::test]
    async fn held_bytes_arrive_late_and_none_are_lost() -> Result<()> {
        let link = echo().await?;
        let mut near = TcpStream::connect(("127.0.0.1", link.port)).await?;
        near.write_u8(1).await?;
        assert!(matches!(read_byte(&mut near, LONG).await, Some(Ok(1))));
        for mode in [Mode { outbound: Flow::Hold, ..Mode::default() }, Mode { inbound: Flow::Hold, ..Mode::default() }]
        {
            let before = link.affected();
            link.set(mode);
            near.write_u8(2).await?;
            assert!(read_byte(&mut near, MOMENT).await.is_none());
            link.heal();
            assert!(matches!(read_byte(&mut near, LONG).await, Some(Ok(2))));
            assert!(link.affected() > before);
        }
        Ok(())
    }

    #[tokio::test]
    async fn lost_replies_half_open_ends_and_resets_end_in_a_reset() -> Result<()> {
        let link = echo().await?;
        let whole = Mode::default();
        for mode in [Mode { inbound: Flow::Discard, ..whole }, Mode { half_open: true, ..whole }] {
            let mut near = TcpStream::connect(("127.0.0.1", link.port)).await?;
            near.write_u8(1).await?;
            assert!(matches!(read_byte(&mut near, LONG).await, Some(Ok(1))));
            link.set(mode);
            near.write_u8(2).await?;
            assert!(read_byte(&mut near, MOMENT).await.is_none(), "no reset yet: {mode:?}");
            link.heal();
            assert!(matches!(read_byte(&mut near, LONG).await, Some(Err(_))), "{mode:?}");
        }
        link.set(Mode { refuse: true, ..whole });
        let mut near = TcpStream::connect(("127.0.0.1", link.port)).await?;
        assert!(matches!(read_byte(&mut near, LONG).await, Some(Err(_))));
        Ok(())
    }
}
