//! The acquires of a session that wait: what they are called, and how many are before each.

use crate::{
    domain::{ids::Call, name::LockName},
    locks::{Follower, client::Client},
    store::LockStore,
    sync::Mutex,
};
use hashbrown::HashMap;
use std::{collections::VecDeque, sync::Arc};

/// Positions that are looked up in one go.
const LOOKS_AT_ONCE: usize = 1_024;

struct Wait {
    follower: Arc<Follower>,
    name: LockName,
    call: Call,
    /// How many were before it, as its client was last told.
    told: Option<u64>,
}

/// The acquires that may wait, by their operation's number.
pub(super) struct Waits {
    client: Arc<Client>,
    waits: HashMap<u64, Wait>,
    /// Those that have come to stand in line since they were last looked for.
    in_line: Arc<Mutex<Vec<u64>>>,
    /// Those that stand in line and are to be looked after.
    to_look: VecDeque<u64>,
}

impl Waits {
    /// None waits for this client yet.
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self { client, waits: HashMap::new(), in_line: Arc::default(), to_look: VecDeque::new() }
    }

    pub(super) fn add(&mut self, operation: u64, name: &LockName, call: Call) -> Arc<Follower> {
        let follower = Arc::new(Follower::new(operation, self.in_line.clone(), self.client.clone()));
        let wait = Wait { follower: follower.clone(), name: name.clone(), call, told: None };
        self.waits.insert(operation, wait);
        self.client.set_waiting(self.waits.len());
        follower
    }

    pub(super) fn remove(&mut self, operation: u64) {
        self.waits.remove(&operation);
        self.client.set_waiting(self.waits.len());
    }

    pub(super) fn cancel(&self, operation: u64) {
        if let Some(wait) = self.waits.get(&operation) {
            wait.follower.wait_no_longer();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub(super) fn some_in_line(&self) -> bool {
        !self.in_line.lock().is_empty()
    }

    pub(super) fn note_those_in_line(&mut self) {
        self.to_look.extend(self.in_line.lock().drain(..));
    }

    /// All are to be looked after.
    pub(super) fn look_at_all(&mut self) {
        self.to_look = self.waits.keys().copied().collect();
    }

    pub(super) fn is_looking(&self) -> bool {
        !self.to_look.is_empty()
    }

    /// Looks after some. Says of whom there is something to tell, and what.
    pub(super) fn look(&mut self, store: &impl LockStore, mut tell: impl FnMut(u64, u64)) {
        let some = self.to_look.len().min(LOOKS_AT_ONCE);
        for operation in self.to_look.drain(..some) {
            let Some(wait) = self.waits.get_mut(&operation) else { continue };
            let ahead = store.ahead(&wait.name, wait.call);
            if let Some(ahead) = ahead.filter(|ahead| Some(*ahead) != wait.told) {
                wait.told = Some(ahead);
                tell(operation, ahead);
            }
        }
    }
}
