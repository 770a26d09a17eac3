//! Nodes in this process: the twins of the scripts, and their publish and subscribe.

#![allow(dead_code, reason = "no test uses all of it")]

use fencepost::{
    node::{Push, PushSender, Pushes},
    store::quorum::{
        acceptor::Incarnation,
        ballot::ServerId,
        frame::PARCEL_BYTES_MAX,
        node::{Ask, Node},
        nodes::{Answers, Carrier, Lost},
    },
};
use std::{collections::BTreeMap, sync::Mutex, time::Duration};

/// So many nodes. All servers of a test share them.
pub(crate) struct Twins<const COUNT: usize>([Mutex<Twin>; COUNT]);

struct Twin {
    node: Node,
    life: Incarnation,
    /// Refuses all, as a Redis that is being restarted.
    is_away: bool,
    wall_clock: u64,
    listeners: BTreeMap<ServerId, PushSender>,
}

impl<const COUNT: usize> Twins<COUNT> {
    pub(crate) fn new() -> Self {
        const TWIN: Twin = Twin {
            node: Node::unmarked(),
            life: Incarnation(1),
            is_away: false,
            wall_clock: 0,
            listeners: BTreeMap::new(),
        };
        Self([const { Mutex::new(TWIN) }; COUNT])
    }

    /// What a node keeps now.
    pub(crate) fn backup(&self, node: usize) -> Node {
        self.0[node].lock().unwrap().node.clone()
    }

    /// Sets a node's wall clock, in microseconds since 1970.
    pub(crate) fn shows(&self, node: usize, wall_clock: u64) {
        self.0[node].lock().unwrap().wall_clock = wall_clock;
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

impl<const COUNT: usize> Carrier for Twins<COUNT> {
    async fn carry(&self, node: usize, asks: Vec<Ask>) -> Result<Answers, Lost> {
        tokio::task::yield_now().await;
        let Twin { node, life, is_away, .. } = &mut *self.0[node].lock().unwrap();
        if *is_away {
            return Err(Lost("it is away".to_owned()));
        }
        let answer = |ask| node.carry_out(*life, ask).map_err(|why| why.to_string());
        Ok(asks.iter().map(answer).collect())
    }

    async fn up(&self, node: usize) {
        tokio::task::yield_now().await;
        while self.0[node].lock().unwrap().is_away {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn wall_clock(&self, node: usize) -> Option<u64> {
        tokio::task::yield_now().await;
        Some(self.0[node].lock().unwrap().wall_clock)
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
