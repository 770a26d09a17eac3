//! What happens to a node beside requests: damage by others, and lives that begin anew.

use super::{both::Both, op::Op};
use deadpool_redis::redis;
use fencepost::testing::store::quorum::paxos::node::Node;

impl Both {
    /// Redis loses or restores data, or begins another life.
    pub(super) fn change_life(&mut self, op: &Op) {
        match op {
            Op::Flush => {
                redis::cmd("FLUSHALL").exec(&mut self.raw).unwrap();
                self.twin = Node::default();
            }
            Op::Restart(keeps) => {
                redis::cmd("SAVE").exec(&mut self.raw).unwrap();
                self.redis.restart(*keeps);
                if !keeps {
                    self.twin = Node::default();
                }
                self.lives_anew();
            }
            Op::Promote => {
                redis::cmd("REPLICAOF").arg("127.0.0.1").arg("1").exec(&mut self.raw).unwrap();
                redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut self.raw).unwrap();
                self.lives_anew();
            }
            Op::Save => {
                redis::cmd("SAVE").exec(&mut self.raw).unwrap();
                let dump = std::fs::read(self.redis.folder().join("dump.rdb")).unwrap();
                self.saved = Some((dump, self.twin.clone()));
            }
            Op::Restore => {
                if let Some((dump, twin)) = self.saved.clone() {
                    self.redis.kill();
                    std::fs::write(self.redis.folder().join("dump.rdb"), dump).unwrap();
                    self.redis.restart(true);
                    self.twin = twin;
                    self.lives_anew();
                }
            }
            _ => unreachable!("{op:?} changes no life"),
        }
    }

    pub(super) fn damage(&mut self, partition: u16, is_text: bool) {
        let key = format!("{{fp}}:q{partition}:h");
        if self.twin.damaged.remove(&partition).is_some() {
            redis::cmd("DEL").arg(&key).exec(&mut self.raw).unwrap();
            return;
        }
        // A header without its time is the longest one that is cut off.
        let cut_off: Vec<u8> = redis::cmd("GETRANGE").arg(&key).arg(0).arg(137).query(&mut self.raw).unwrap();
        redis::cmd("DEL").arg(&key).exec(&mut self.raw).unwrap();
        let why = if is_text {
            redis::cmd("SET").arg(&key).arg(cut_off).exec(&mut self.raw).unwrap();
            format!("{key} is damaged")
        } else {
            redis::cmd("HSET").arg(&key).arg("a").arg("b").exec(&mut self.raw).unwrap();
            "WRONGTYPE Operation against a key holding the wrong kind of value".to_owned()
        };
        self.twin.partitions.entry(partition).or_default().header = None;
        self.twin.damaged.insert(partition, why.into());
    }
}
