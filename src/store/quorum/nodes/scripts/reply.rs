//! Replies of the scripts: lists whose first item is a word. The reply to several requests is a list of such lists.

use super::bytes::Taken;
use crate::{
    node::{NodeError, Value, script_error},
    store::{
        content::Bytes,
        quorum::paxos::{
            acceptor::Seen,
            classic::KeyState,
            message::{Answer, Cursor},
            node::NodeAnswer,
        },
    },
};

/// The answers to so many requests.
pub(super) fn answers(reply: Value, requests: usize) -> Result<Vec<Result<NodeAnswer, NodeError>>, NodeError> {
    let Value::Array(parts) = reply else { return Err(strange()) };
    match parts.first() {
        // The node refused them all, or there was but one.
        Some(Value::BulkString(_)) => {
            let one = answer(parts);
            let is_of_all = !matches!(one, Ok(NodeAnswer::OfPartition(_)) | Err(_));
            if requests == 1 || is_of_all { Ok(vec![one; requests]) } else { Err(strange()) }
        }
        _ if parts.len() == requests => parts.into_iter().map(part).collect(),
        _ => Err(strange()),
    }
}

fn strange() -> NodeError {
    NodeError::Corrupt("a script of the node gave an unexpected answer".to_owned())
}

fn part(value: Value) -> Result<Result<NodeAnswer, NodeError>, NodeError> {
    match value {
        Value::Array(parts) => Ok(answer(parts)),
        _ => Err(strange()),
    }
}

/// What makes no sense may be damaged data, which the script handed on: an error of this request alone.
fn answer(parts: Vec<Value>) -> Result<NodeAnswer, NodeError> {
    if let [Value::BulkString(word), Value::BulkString(why)] = &parts[..]
        && word == b"broken"
    {
        return Err(script_error(&String::from_utf8_lossy(why)));
    }
    known(parts).ok_or_else(strange)
}

fn known(mut parts: Vec<Value>) -> Option<NodeAnswer> {
    if matches!(parts.first(), Some(Value::BulkString(word)) if word == b"beats") {
        return heartbeats(parts);
    }
    let records = parts.pop_if(|last| matches!(last, Value::Array(_)));
    let texts = parts.iter().map(|part| if let Value::BulkString(bytes) = part { Some(&**bytes) } else { None });
    let texts = texts.collect::<Option<Vec<&[u8]>>>()?;
    let (word, rest) = texts.split_first()?;
    let answer = match (*word, rest, records) {
        (b"marked", [], None) => return Some(NodeAnswer::Marked),
        (b"unmarked", [], None) => return Some(NodeAnswer::Unmarked),
        (b"other", [cluster], None) => return Taken(cluster).cluster().map(NodeAnswer::Other),
        (b"list", [mark], None) => return Taken(mark).mark().map(NodeAnswer::List),
        (b"prefix", [prefix], None) => return Some(NodeAnswer::Prefix(String::from_utf8_lossy(prefix).into())),
        (b"denied", [command], None) => return Some(NodeAnswer::Denied(String::from_utf8_lossy(command).into())),
        (b"done", [], None) => Answer::Done,
        (b"free", [], None) => Answer::Classic(KeyState::Free),
        (b"ours", [], None) => Answer::Classic(KeyState::Ours),
        // It ended in that very moment, or it has no TTL.
        (b"theirs", [b"-1" | b"-2"], None) => Answer::Classic(KeyState::Theirs(None)),
        (b"theirs", [ms], None) => Answer::Classic(KeyState::Theirs(Some(Taken(ms).decimal()?))),
        (b"again", [], None) => Answer::Again,
        (b"promised", [stamp, accepted], None) => {
            Answer::Promised { stamp: Taken(stamp).stamp()?, accepted: Taken(accepted).position()? }
        }
        (b"no", [promised], None) => Answer::No(Taken(promised).ballot()?),
        (b"at", [accepted], None) => Answer::At(Taken(accepted).position()?),
        (b"low", [token], None) => Answer::Low(Taken(token).decimal()?),
        (b"stranger", [next], None) => Answer::Stranger(Taken(next).stamp()?),
        (b"piece", [accepted, time, token, next], Some(records)) => Answer::Piece {
            position: Taken(accepted).position()?,
            time: Taken(time).decimal()?,
            token: Taken(token).decimal()?,
            records: pairs(records)?,
            next: (*next != b"0").then(|| Cursor((*next).into())),
        },
        _ => return None,
    };
    Some(NodeAnswer::OfPartition(answer))
}

fn heartbeats(parts: Vec<Value>) -> Option<NodeAnswer> {
    let [_, Value::Array(partitions), servers] = <[Value; 3]>::try_from(parts).ok()? else { return None };
    let partitions = partitions.iter().map(seen).collect::<Option<_>>()?;
    // A field that no server has written belongs to none.
    let server = |(id, payload): (Bytes, Bytes)| Some((Taken(&id).server()?, payload));
    let mut servers: Vec<_> = pairs(servers)?.into_iter().filter_map(server).collect();
    servers.sort_unstable();
    Some(NodeAnswer::Heartbeats { partitions, servers })
}

fn seen(partition: &Value) -> Option<Seen> {
    let parts = match partition {
        Value::BulkString(header) => return Taken(header).votes(),
        Value::Array(parts) => parts,
        _ => return None,
    };
    match &parts[..] {
        [Value::BulkString(word), Value::BulkString(next), Value::BulkString(written)] if word == b"stranger" => {
            Some(Seen::Stranger { next: Taken(next).stamp()?, written: Taken(written).ballot()? })
        }
        [Value::BulkString(word), Value::BulkString(why)] if word == b"broken" => {
            Some(Seen::Broken(String::from_utf8_lossy(why).into()))
        }
        _ => None,
    }
}

fn pairs(records: Value) -> Option<Vec<(Bytes, Bytes)>> {
    let Value::Array(values) = records else { return None };
    let mut pairs = Vec::with_capacity(values.len() / 2);
    let mut values = values.into_iter();
    while let Some(key) = values.next() {
        let (Value::BulkString(key), Value::BulkString(record)) = (key, values.next()?) else { return None };
        pairs.push((key.into(), record.into()));
    }
    Some(pairs)
}
