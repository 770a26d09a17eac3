//! Nodes in this process: the twins of the scripts, and their publish and subscribe.

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
use std::{collections::BTreeMap, sync::Mutex};

/// So many nodes. All servers of a test share them.
pub(crate) struct Twins<const COUNT: usize>([Mutex<Twin>; COUNT]);

struct Twin {
    node: Node,
    listeners: BTreeMap<ServerId, PushSender>,
}

impl<const COUNT: usize> Twins<COUNT> {
    pub(crate) fn new() -> Self {
        Self([const { Mutex::new(Twin { node: Node::unmarked(), listeners: BTreeMap::new() }) }; COUNT])
    }
}

impl<const COUNT: usize> Carrier for Twins<COUNT> {
    async fn carry(&self, node: usize, asks: Vec<Ask>) -> Result<Answers, Lost> {
        tokio::task::yield_now().await;
        let node = &mut self.0[node].lock().unwrap().node;
        let answer = |ask| node.carry_out(Incarnation(1), ask).map_err(|why| why.to_string());
        Ok(asks.iter().map(answer).collect())
    }

    async fn up(&self, _: usize) {
        tokio::task::yield_now().await;
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
