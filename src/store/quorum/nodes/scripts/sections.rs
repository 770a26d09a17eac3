//! The arguments of each request, in the order in which the scripts read them.

use super::{
    STAGED_SECONDS,
    bytes::{self, Fields, decimal},
};
use crate::{
    node::{Arg, NodeError},
    store::{
        content::Bytes,
        quorum::{
            nodes::keys::Keys,
            paxos::{
                acceptor::PIECE_RECORDS_MAX,
                ballot::{Position, TransferId},
                classic::Wish,
                message::Request,
                node::{ClusterId, NodeRequest},
            },
        },
    },
};

/// What a run of a script is for, and for servers of which cluster and list.
pub(super) enum Kind {
    Promises(ClusterId, u64),
    Writes(ClusterId, u64),
    Heartbeat(ClusterId, u64),
    Alone,
}

impl Kind {
    pub(super) fn of(request: &NodeRequest) -> Self {
        match request {
            NodeRequest::OfPartition { cluster, list, request: Request::Promise(_), .. } => {
                Self::Promises(*cluster, *list)
            }
            NodeRequest::OfPartition { cluster, list, request: Request::Write { .. }, .. } => {
                Self::Writes(*cluster, *list)
            }
            NodeRequest::Heartbeat { cluster, list, .. } => Self::Heartbeat(*cluster, *list),
            _ => Self::Alone,
        }
    }

    /// Whether a request of the kind `next` may go in the same run.
    pub(super) fn takes(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Promises(cluster, list), Self::Promises(of, its))
            | (Self::Writes(cluster, list) | Self::Heartbeat(cluster, list), Self::Writes(of, its)) => {
                (cluster, list) == (of, its)
            }
            _ => false,
        }
    }
}

/// How many records a request has.
pub(super) fn records(request: &NodeRequest) -> usize {
    match request {
        NodeRequest::OfPartition { request: Request::Write { changes, .. }, .. } => {
            changes.put.len() + changes.gone.len()
        }
        NodeRequest::OfPartition { request: Request::Stage { piece, .. }, .. } => piece.len(),
        _ => 0,
    }
}

/// Adds the keys that the script touches for one request.
pub(super) fn keys(keys: &Keys, request: &NodeRequest, names: &mut Vec<Arg>) {
    let (partition, request) = match request {
        NodeRequest::Mark(_) => return,
        NodeRequest::Prefix { .. } => return names.push(keys.classic().into()),
        NodeRequest::Heartbeat { partitions, .. } => {
            names.push(keys.servers().into());
            for name in ["h", "s", "v"] {
                names.extend((0..*partitions).map(|partition| keys.partition(partition).key(name)));
            }
            return;
        }
        NodeRequest::OfPartition { partition, request, .. } => (keys.partition(*partition), request),
    };
    names.extend(["h", "s", "v"].map(|name| partition.key(name)));
    match request {
        Request::Promise(_) => {}
        Request::Write { .. } | Request::Read { .. } => names.push(partition.key("c")),
        Request::Stage { position, transfer, .. } => names.push(partition.key(staged(position, *transfer))),
        Request::Admit { position, transfer, .. } => {
            names.extend([partition.key("c"), partition.key(staged(position, *transfer))]);
        }
        Request::Classic(step) => {
            names.extend([partition.key([b"k:", &*step.key].concat()), Arg::from(&*step.key)]);
        }
    }
}

/// The bytes of the keys and records of a request.
pub(super) fn content_bytes(request: &NodeRequest) -> usize {
    match request {
        NodeRequest::OfPartition { request, .. } => request.bytes(),
        NodeRequest::Heartbeat { payload, .. } => payload.len(),
        NodeRequest::Mark(_) | NodeRequest::Prefix { .. } => 0,
    }
}

/// About how many arguments a request has, so that they are not moved as they become more.
pub(super) fn arguments(request: &NodeRequest) -> usize {
    match request {
        NodeRequest::OfPartition { request: Request::Write { changes, .. }, .. } => {
            5 + changes.gone.len() + 2 * changes.put.len()
        }
        NodeRequest::OfPartition { request: Request::Stage { piece, .. }, .. } => 1 + 2 * piece.len(),
        NodeRequest::Heartbeat { gone, .. } => 4 + gone.len(),
        _ => 3,
    }
}

/// Adds the arguments of one request.
pub(super) fn args(request: &NodeRequest, args: &mut Vec<Arg>) -> Result<(), NodeError> {
    let request = match request {
        NodeRequest::Mark(mark) => {
            args.push(bytes::mark(mark)?);
            return Ok(());
        }
        NodeRequest::OfPartition { request, .. } => request,
        NodeRequest::Prefix { prefix, .. } => {
            args.push(Arg::from(&**prefix));
            return Ok(());
        }
        NodeRequest::Heartbeat { partitions, server, payload, gone, .. } => {
            args.extend([Arg::Uint((*partitions).into()), Arg::from(&server.0[..]), Arg::from(&**payload)]);
            args.push(count(gone.len()));
            args.extend(gone.iter().map(|server| Arg::from(&server.0[..])));
            return Ok(());
        }
    };
    match request {
        Request::Promise(ballot) => args.push(Fields::default().ballot(ballot)?.arg()),
        Request::Write { stamp, before, position, changes } => {
            let from = Fields::header(*stamp, &position.ballot, before)?.arg();
            let to = Fields::header(*stamp, &position.ballot, position)?.time(changes.time)?.arg();
            let (gone, put) = (changes.gone.len(), 2 * changes.put.len());
            args.extend([from, to, decimal(changes.token)?.into(), count(gone), count(put)]);
            args.extend(changes.gone.iter().map(Arg::from));
            args.extend(pairs(&changes.put));
        }
        Request::Read { stamp, ballot, from } => {
            let reader = Fields::default().id(stamp.0).ballot(ballot)?.arg();
            let from = if from.0.is_empty() { Arg::from("0") } else { Arg::from(&*from.0) };
            args.extend([reader, from, count(PIECE_RECORDS_MAX)]);
        }
        Request::Stage { piece, .. } => {
            args.push(STAGED_SECONDS.into());
            args.extend(pairs(piece));
        }
        Request::Admit { position, count: staged, time, token, stamp, .. } => {
            let to = Fields::header(*stamp, &position.ballot, position)?.time(*time)?.arg();
            args.extend([to, decimal(*token)?.into(), count(*staged)]);
        }
        Request::Classic(step) => {
            args.push(Fields::default().position(&step.position)?.arg());
            match &step.wish {
                Wish::Look => args.push("look".into()),
                Wish::Hold { value, ms } => args.extend(["hold".into(), Arg::from(&**value), decimal(*ms)?.into()]),
                Wish::Drop => args.push("drop".into()),
            }
        }
    }
    Ok(())
}

fn pairs(records: &[(Bytes, Bytes)]) -> impl Iterator<Item = Arg> {
    records.iter().flat_map(|(key, record)| [Arg::from(key), Arg::from(record)])
}

fn count(number: usize) -> Arg {
    Arg::Uint(number as u64)
}

/// The key under which a snapshot is staged: another batch is another snapshot.
fn staged(Position { ballot, seq }: &Position, transfer: TransferId) -> String {
    let server = ballot.server.0.iter().fold(0, |id: u128, byte| id << 8 | u128::from(*byte));
    format!("t:{:x}-{server:024x}-{seq:x}-{:032x}", ballot.round, transfer.0)
}
