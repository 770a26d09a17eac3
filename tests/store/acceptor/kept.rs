//! What a node keeps, as keys of Redis: read from Redis, and as its twin has it. The bytes are put together here a
//! second time, so that the test does not rest on the code that it tests.

use super::op::SPOILT;
use deadpool_redis::redis::{self, Connection};
use fencepost::testing::store::{
    content::Content,
    quorum::paxos::{
        acceptor::{Acceptor, Incarnation},
        ballot::{Ballot, Position},
        classic_keys::{ClassicKey, ClassicValue},
        node::{Mark, Node},
    },
};
use std::collections::BTreeMap;

/// Texts and hashes by their keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    texts: BTreeMap<Vec<u8>, Vec<u8>>,
    hashes: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
}

fn six(number: u64) -> Vec<u8> {
    number.to_be_bytes()[2..].to_vec()
}

fn ballot(Ballot { round, server }: Ballot) -> Vec<u8> {
    [six(round), server.0.to_vec()].concat()
}

fn mark(Mark { cluster, partitions, list, members, rebuild }: &Mark) -> Vec<u8> {
    let rest =
        serde_json::json!({"partitions": partitions, "members": members.iter().map(|it| &**it).collect::<Vec<_>>()});
    // In the order of the fields, which `json!` does not keep.
    let rebuild = rebuild.map(|rebuild| format!(r#","rebuild":{rebuild}"#)).unwrap_or_default();
    let rest = format!(r#"{{"partitions":{},"members":{}{rebuild}}}"#, rest["partitions"], rest["members"]);
    [cluster.0.to_be_bytes().to_vec(), six(*list), rest.into_bytes()].concat()
}

fn hash(content: &Content) -> BTreeMap<Vec<u8>, Vec<u8>> {
    content.0.iter().map(|(key, record)| (key.to_vec(), record.to_vec())).collect()
}

/// What the twin keeps; `lives` are the ids of the incarnations by number.
pub(crate) fn by_twin(node: &Node, lives: &[String]) -> Kept {
    let mut kept = Kept::default();
    kept.texts.extend(node.mark.as_ref().map(|it| (b"{fp}:node".to_vec(), mark(it))));
    kept.texts.extend(node.prefix.as_ref().map(|it| (b"{fp}:classic".to_vec(), it.as_bytes().to_vec())));
    for (partition, Acceptor { header, token, content, next, staged, classic }) in &node.partitions {
        let key = |name: &str| format!("{{fp}}:q{partition}:{name}").into_bytes();
        let life = |it: Incarnation| match it {
            Incarnation::NONE => vec![0; 80],
            Incarnation(number) => lives[usize::try_from(number).unwrap()].clone().into_bytes(),
        };
        if let Some(it) = header {
            let Position { ballot: of, seq } = it.accepted;
            let (stamp, promised) = (it.stamp.0.to_be_bytes().to_vec(), ballot(it.promised));
            let accepted = [ballot(of), six(seq)].concat();
            let text = [life(it.incarnation), stamp, promised, accepted, it.time.to_string().into_bytes()].concat();
            kept.texts.insert(key("h"), text);
        }
        if let Some(token) = token {
            kept.texts.insert(key("s"), token.to_string().into_bytes());
        }
        if let Some((incarnation, stamp)) = next {
            kept.texts.insert(key("v"), [life(*incarnation), stamp.0.to_be_bytes().to_vec()].concat());
        }
        for (name, ClassicKey { value, copy }) in &classic.0 {
            match value {
                Some(ClassicValue::Text(text)) => drop(kept.texts.insert(name.to_vec(), text.to_vec())),
                Some(ClassicValue::Other) => {
                    kept.hashes.insert(name.to_vec(), [(b"field".to_vec(), b"theirs".to_vec())].into());
                }
                None => {}
            }
            if let Some((Position { ballot: of, seq }, copy)) = copy {
                let text = [ballot(*of), six(*seq), copy.to_vec()].concat();
                kept.texts.insert([key("k:"), name.to_vec()].concat(), text);
            }
        }
        kept.hashes.insert(key("c"), hash(content));
        for ((position, transfer), content) in staged {
            let server = position.ballot.server.0.map(|byte| format!("{byte:02x}")).concat();
            let (round, seq) = (position.ballot.round, position.seq);
            kept.hashes.insert(key(&format!("t:{round:x}-{server}-{seq:x}-{:032x}", transfer.0)), hash(content));
        }
    }
    let servers = node.servers.iter().map(|(server, payload)| (server.0.to_vec(), payload.to_vec()));
    kept.hashes.insert(b"{fp}:servers".to_vec(), servers.collect());
    kept.hashes.retain(|_, content| !content.is_empty());
    kept
}

/// Classic keys of a leader, and their copies, end after this.
const CLASSIC_TTL_MS: i64 = 3_600_000;

/// What Redis keeps, but for headers that are damaged.
pub(crate) fn by_redis(connection: &mut Connection, twin: &Node) -> Result<Kept, String> {
    let mut kept = Kept::default();
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    let is_hash =
        |key: &[u8]| key == b"{fp}:servers" || key.ends_with(b":c") || key.windows(3).any(|part| part == b":t:");
    let damaged: Vec<_> = twin.damaged.keys().map(|partition| format!("{{fp}}:q{partition}:h").into_bytes()).collect();
    for key in keys.into_iter().filter(|key| !damaged.contains(key)) {
        let ms: i64 = redis::cmd("PTTL").arg(&key).query(connection).unwrap();
        let is_classic = key.starts_with(b"lock:");
        let is_copy = key.starts_with(b"{fp}:q") && key.windows(3).any(|part| part == b":k:");
        let is_staged = !is_classic && !is_copy && key.windows(3).any(|part| part == b":t:");
        let is_right = match ms {
            -1 => !is_staged && !is_copy,
            1..=60_000 => is_staged,
            60_001..=CLASSIC_TTL_MS => is_copy || is_classic,
            _ => false,
        };
        if !is_right {
            return Err(format!("{} is kept for {ms} ms", String::from_utf8_lossy(&key)));
        }
        let kind: String = redis::cmd("TYPE").arg(&key).query(connection).unwrap();
        if is_hash(&key) || is_classic && kind == "hash" {
            kept.hashes.insert(key.clone(), redis::cmd("HGETALL").arg(&key).query(connection).unwrap());
        } else {
            let text: Vec<u8> = redis::cmd("GET").arg(&key).query(connection).unwrap();
            // To the twin, a sequencer that was spoilt is missing.
            if !(key.ends_with(b":s") && SPOILT.iter().any(|spoilt| spoilt.as_bytes() == text)) {
                kept.texts.insert(key, text);
            }
        }
    }
    Ok(kept)
}
