//! Nodes in this process: the twins of the scripts, and their publish and subscribe.

#![allow(dead_code, reason = "no test uses all of it")]

use fencepost::testing::{
    domain::time::StoreTime,
    node::{Push, PushSender, Pushes},
    store::quorum::{
        nodes::client::{Answers, Lost, NodeClient, PARCEL_BYTES_MAX},
        paxos::{
            acceptor::Incarnation,
            ballot::ServerId,
            node::{Node, NodeRequest},
        },
    },
};
use std::{cell::OnceCell, collections::BTreeMap, sync::Mutex, time::Duration};
use tokio::time::Instant;

/// The right wall clock: it goes on with the time of the runtime of this thread's test.
pub(crate) fn wall_clock() -> StoreTime {
    thread_local!(static BEGAN: OnceCell<Instant> = const { OnceCell::new() });
    let passed = BEGAN.with(|began| began.get_or_init(Instant::now).elapsed());
    StoreTime::from_micros(1_800_000_000_000_000).after(passed)
}

/// So many nodes. All servers of a test share them.
pub(crate) struct Twins<const COUNT: usize>([Mutex<Twin>; COUNT]);

struct Twin {
    node: Node,
    life: Incarnation,
    /// Refuses all, as a Redis that is being restarted.
    is_away: bool,
    /// How far its wall clock is ahead of the right one, in microseconds.
    is_ahead: i64,
    listeners: BTreeMap<ServerId, PushSender>,
}

impl<const COUNT: usize> Twins<COUNT> {
    pub(crate) fn new() -> Self {
        const TWIN: Twin = Twin {
            node: Node::unmarked(),
            life: Incarnation(1),
            is_away: false,
            is_ahead: 0,
            listeners: BTreeMap::new(),
        };
        Self([const { Mutex::new(TWIN) }; COUNT])
    }

    /// What a node keeps now.
    pub(crate) fn backup(&self, node: usize) -> Node {
        self.0[node].lock().unwrap().node.clone()
    }

    /// Sets a node's wall clock so far ahead of the right one, or behind it.
    pub(crate) fn sets_clock(&self, node: usize, seconds: i64) {
        self.0[node].lock().unwrap().is_ahead = seconds * 1_000_000;
    }

    /// Stops a node.
    pub(crate) fn stops(&self, node: usize) {
        self.0[node].lock().unwrap().is_away = true;
    }

    /// Starts a node in its next life, with what it kept.
    pub(crate) fn starts_with(&self, node: usize, kept: Node) {
        let mut twin = self.0[node].lock().unwrap();
        (twin.node, twin.life.0, twin.is_away) = (kept, twin.life.0 + 1, false);
    }
}

impl<const COUNT: usize> NodeClient for Twins<COUNT> {
    async fn send(&self, node: usize, requests: Vec<NodeRequest>) -> Result<Answers, Lost> {
        tokio::task::yield_now().await;
        let Twin { node, life, is_away, .. } = &mut *self.0[node].lock().unwrap();
        if *is_away {
            return Err(Lost("it is away".to_owned()));
        }
        let answer = |request| node.execute(*life, request).map_err(|why| why.to_string());
        Ok(requests.iter().map(answer).collect())
    }

    async fn up(&self, node: usize) {
        tokio::task::yield_now().await;
        while self.0[node].lock().unwrap().is_away {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn wall_clock(&self, node: usize) -> Option<u64> {
        tokio::task::yield_now().await;
        Some(wall_clock().as_micros().saturating_add_signed(self.0[node].lock().unwrap().is_ahead))
    }

    async fn publish(&self, node: usize, to: ServerId, parcel: Vec<u8>) -> Result<bool, Lost> {
        if parcel.len() > PARCEL_BYTES_MAX {
            return Err(Lost("too large".to_owned()));
        }
        let is_heard = {
            let listeners = &mut self.0[node].lock().unwrap().listeners;
            listeners.retain(|_, listener| !listener.is_closed());
            listeners.get(&to).map(|listener| listener.deliver(Push::Message(parcel))).is_some()
        };
        tokio::task::yield_now().await;
        Ok(is_heard)
    }

    fn listen(&self, node: usize, me: ServerId) -> Pushes {
        let (sender, pushes) = Pushes::channel();
        sender.deliver(Push::Resync);
        // One that was there before ends with its sender.
        self.0[node].lock().unwrap().listeners.insert(me, sender);
        pushes
    }
}
