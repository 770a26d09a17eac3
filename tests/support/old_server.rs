//! Stands for a server of the first version beside those of this one: its heartbeats in Redis tell no features.

use crate::redis::{Redis, ask};
use fencepost::testing::store::quorum::rpc::messages::Heartbeat;
use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Not longer than the period of real ones.
const PERIOD: Duration = Duration::from_millis(200);
/// Writes a heartbeat, whose bytes are hex digits, as words of these tests are text.
const BEAT: &str = "redis.call('HSET', KEYS[1], ARGV[1], (ARGV[2]:gsub('..', function(hex) \
                    return string.char(tonumber(hex, 16)) end)))";

/// A server that lives and leads nothing, until it is dropped.
pub(crate) struct OldServer {
    stop: Arc<AtomicBool>,
    beats: Option<JoinHandle<()>>,
}

impl OldServer {
    /// Comes to the store on this Redis.
    pub(crate) fn start(redis: &Redis) -> Self {
        let (port, stop) = (redis.port, Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let beats = thread::spawn(move || {
            for count in 1.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                beat(port, count);
                thread::sleep(PERIOD);
            }
        });
        Self { stop, beats: Some(beats) }
    }
}

impl Drop for OldServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.beats.take().map(JoinHandle::join);
    }
}

fn beat(port: u16, count: u64) {
    let payload = Heartbeat { count, ..Heartbeat::default() }.encode();
    let hex = payload.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    ask(port, None, &["EVAL", BEAT, "1", "{fp}:servers", "old-server-1", &hex]).unwrap().text();
}
