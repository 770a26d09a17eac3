//! A link between two processes, with everything that can go wrong on one: a proxy in user space.
//!
//! A black hole holds bytes back rather than losing them: when it is healed they arrive late, as TCP's retransmissions
//! would. Bytes that are thrown away ([`Way::Discard`]) make the connection useless, so it is reset afterwards.

use crate::pump::{self, Side, Upstream};
use anyhow::Result;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// What happens to bytes that go one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    #[default]
    Pass,
    /// Kept until healed.
    Hold,
    /// Late by so much.
    Delay(Duration),
    /// Thrown away.
    Discard,
}

/// How a link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// From the process that connected.
    pub(crate) forth: Way,
    /// To it.
    pub(crate) back: Way,
    /// The far end is gone, and nobody told the near one.
    pub(crate) half_open: bool,
    /// Whoever connects is reset.
    pub(crate) refuse: bool,
}

/// What all connections of a link go by.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    /// Counts up; connections made under a lower number are reset.
    pub(crate) life: u64,
    pub(crate) upstream: Option<Upstream>,
}

/// A link. Gone when dropped.
pub(crate) struct Link {
    /// What it is called in histories.
    pub(crate) name: String,
    /// Where it listens, on 127.0.0.1.
    pub(crate) port: u16,
    state: watch::Sender<State>,
    touched: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
        self.state.send_modify(|state| state.life += 1);
    }
}

impl Link {
    /// One that leads nowhere yet.
    pub(crate) async fn new(name: String) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (state, watching) = watch::channel(State { mode: Mode::default(), life: 0, upstream: None });
        let touched = Arc::new(AtomicU64::new(0));
        let accepting = tokio::spawn(accept(listener, watching, Arc::clone(&touched)));
        Ok(Self { name, port, state, touched, accepting })
    }

    /// From now on it leads there. Connections that lead elsewhere are reset.
    pub(crate) fn lead_to(&self, upstream: Upstream) {
        self.state.send_modify(|state| {
            state.life += 1;
            state.upstream = Some(upstream);
        });
    }

    /// Resets all connections.
    pub(crate) fn reset(&self) {
        self.state.send_modify(|state| state.life += 1);
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// Makes it whole; what was thrown away or cut made connections useless, which are reset.
    pub(crate) fn heal(&self) {
        self.state.send_modify(|state| {
            let useless = state.mode.half_open || state.mode.forth == Way::Discard || state.mode.back == Way::Discard;
            state.life += u64::from(useless);
            state.mode = Mode::default();
        });
    }

    /// How often anything but [`Way::Pass`] happened to somebody's bytes or connection.
    pub(crate) fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, watching: watch::Receiver<State>, touched: Arc<AtomicU64>) {
    loop {
        match listener.accept().await {
            Ok((near, _)) => {
                let side = Side { near, watching: watching.clone(), touched: Arc::clone(&touched) };
                tokio::spawn(pump::carry(side));
            }
            // Too many open files, say: others may close theirs.
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

    /// A link to something that says everything back.
    async fn echo() -> Result<Link> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let link = Link::new("test".to_owned()).await?;
        link.lead_to(Upstream::Tcp(listener.local_addr()?.port()));
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

    async fn told(stream: &mut TcpStream, within: Duration) -> Option<std::io::Result<u8>> {
        timeout(within, stream.read_u8()).await.ok()
    }

    #[tokio::test]
    async fn what_is_held_back_arrives_late_and_nothing_is_lost() -> Result<()> {
        let link = echo().await?;
        let mut near = TcpStream::connect(("127.0.0.1", link.port)).await?;
        near.write_u8(1).await?;
        assert!(matches!(told(&mut near, LONG).await, Some(Ok(1))));
        for mode in [Mode { forth: Way::Hold, ..Mode::default() }, Mode { back: Way::Hold, ..Mode::default() }] {
            let before = link.touched();
            link.set(mode);
            near.write_u8(2).await?;
            assert!(told(&mut near, MOMENT).await.is_none());
            link.heal();
            assert!(matches!(told(&mut near, LONG).await, Some(Ok(2))));
            assert!(link.touched() > before);
        }
        Ok(())
    }

    #[tokio::test]
    async fn lost_replies_half_open_ends_and_resets_end_in_a_reset() -> Result<()> {
        let link = echo().await?;
        let whole = Mode::default();
        for mode in [Mode { back: Way::Discard, ..whole }, Mode { half_open: true, ..whole }] {
            let mut near = TcpStream::connect(("127.0.0.1", link.port)).await?;
            near.write_u8(1).await?;
            assert!(matches!(told(&mut near, LONG).await, Some(Ok(1))));
            link.set(mode);
            near.write_u8(2).await?;
            assert!(told(&mut near, MOMENT).await.is_none(), "nothing tells it: {mode:?}");
            link.heal();
            assert!(matches!(told(&mut near, LONG).await, Some(Err(_))), "{mode:?}");
        }
        link.set(Mode { refuse: true, ..whole });
        let mut near = TcpStream::connect(("127.0.0.1", link.port)).await?;
        assert!(matches!(told(&mut near, LONG).await, Some(Err(_))));
        Ok(())
    }
}
