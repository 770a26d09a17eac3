//! The content of a partition as its nodes store it: records by key, and a sequencer.

use std::{collections::BTreeMap, sync::Arc};

/// A key or a record, in the layout that servers agree on. Nodes do not look into it.
pub type Bytes = Arc<[u8]>;

/// The records of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Content(pub BTreeMap<Bytes, Bytes>);

/// What a batch changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Changes {
    /// The partition's time, in microseconds.
    pub time: u64,
    /// The highest token drawn so far.
    pub token: u64,
    /// Records that are new or have changed.
    pub put: Vec<(Bytes, Bytes)>,
    /// Keys whose records are gone.
    pub gone: Vec<Bytes>,
}

impl Content {
    /// Carries the changes out, in the order in which a node does. No key is both put and gone.
    pub fn apply(&mut self, changes: &Changes) {
        self.0.extend(changes.put.iter().cloned());
        for key in &changes.gone {
            self.0.remove(key);
        }
    }
}
