//! The waiting acquires of a session, and their queue positions.

use crate::{
    domain::{ids::Call, name::LockName},
    locks::{Follower, client::Client},
    store::LockStore,
    sync::Mutex,
};
use hashbrown::HashMap;
use std::{collections::VecDeque, sync::Arc};

/// The most positions that one turn looks up.
const LOOKS_AT_ONCE: usize = 1_024;

struct Wait {
    follower: Arc<Follower>,
    name: LockName,
    call: Call,
    /// The position that its client was last told.
    told: Option<u64>,
}

/// The acquires that may wait, by operation number.
pub(super) struct Waits {
    client: Arc<Client>,
    waits: HashMap<u64, Wait>,
    /// Operations queued since the last look.
    in_line: Arc<Mutex<Vec<u64>>>,
    /// Operations whose position is to be looked up.
    to_look: VecDeque<u64>,
}

impl Waits {
    /// No waiting acquires.
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

    /// Schedules a look at all positions.
    pub(super) fn look_at_all(&mut self) {
        self.to_look = self.waits.keys().copied().collect();
    }

    pub(super) fn is_looking(&self) -> bool {
        !self.to_look.is_empty()
    }

    /// Looks up some positions, and calls `tell` for each that has changed.
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
