//! The header of a batch of commands: who sends them, to which incarnation of Redis, until when they may act.
//! `lua/lib/head.lua` reads it.

use super::keys;
use crate::{
    domain::{ids::ReplicaId, limits::COMMAND_WINDOW, time::StoreTime},
    node::{Arg, Connection, Header},
};
use uuid::Uuid;

/// What is the same in each header of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The server replica.
    pub replica: ReplicaId,
    /// How many requests may wait for a lock.
    pub waiters_max: usize,
}

impl Sender {
    /// The header of a batch that begins with a command for this bucket.
    pub(super) fn header(self, connection: &Connection, bucket: u16) -> Header {
        let packed = self.packed(connection.incarnation().0, connection.not_after(COMMAND_WINDOW));
        Header { key: keys::of_bucket(bucket), packed }
    }

    /// The header as the scripts take it.
    pub fn packed(self, incarnation: Uuid, not_after: StoreTime) -> Vec<u8> {
        let mut packed = Vec::with_capacity(96);
        let mut text = Uuid::encode_buffer();
        let text = &*incarnation.simple().encode_lower(&mut text);
        for arg in [
            Arg::from(self.replica.0),
            Arg::from(text),
            Arg::from(not_after.as_micros()),
            Arg::from(self.waiters_max as u64),
            Arg::from(incarnation),
        ] {
            arg.pack(&mut packed);
        }
        packed
    }
}
