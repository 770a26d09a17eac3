//! Requests to a node that is a Redis: which scripts run, with which arguments, and what their replies mean.
//!
//! The scripts do what [`paxos::node`](crate::store::quorum::paxos::node) does, request by request. What they keep of
//! partition 3 is under keys that begin with `{fp}:q3:` (`lua/head.lua`), what the node knows of its cluster under
//! `{fp}:node`, the prefix of classic keys under `{fp}:classic`, and what servers tell each other in the hash
//! `{fp}:servers`, by their ids. Each call names every key that its script touches. Writes and promises for many
//! partitions go in one run of their script, and writes that follow a heartbeat in the run of that; each gets its own
//! answer.

mod bytes;
mod reply;
mod sections;

use super::keys::Keys;
use crate::{
    node::{Arg, NodeError, Script, ScriptCall, Value},
    store::quorum::paxos::{
        ballot::Stamp,
        message::Request,
        node::{NodeAnswer, NodeRequest},
    },
};
use bytes::Fields;
use sections::Kind;

/// Records of one run of a script, at most, unless one batch alone has more: Redis does nothing else meanwhile.
pub const CALL_RECORDS_MAX: usize = 512;
/// Bytes of the keys and records of one run of a script, at most, unless one request alone has more.
pub const CALL_BYTES_MAX: usize = 256 * 1024;
/// For how long, in seconds, a node keeps a piece of a snapshot that no other piece follows. A transfer that takes
/// longer than this for one piece begins again.
pub const STAGED_SECONDS: u64 = 60;

/// A script with the parts that all but marks begin with. The first line makes Redis refuse the whole
/// script where it would refuse one of its commands: without memory, without enough replicas, as a replica.
macro_rules! script {
    ($($name:literal),+) => {
        Script::new(concat!(
            "#!lua\n",
            include_str!("../lua/head.lua"),
            include_str!("../lua/kept.lua"),
            $(include_str!(concat!("../lua/", $name))),+
        ))
    };
}

static MARK: Script = Script::new(concat!("#!lua\n", include_str!("../lua/mark.lua")));
static PROMISE: Script = script!("promise.lua");
static WRITE: Script = script!("batch.lua", "batches.lua", "write.lua");
static READ: Script = script!("read.lua");
static STAGE: Script = script!("stage.lua");
static ADMIT: Script = script!("admit.lua");
static BEAT: Script = script!("batch.lua", "batches.lua", "beat.lua");
static CLASSIC: Script = script!("classic.lua");
static PREFIX: Script = script!("prefix.lua");

/// One run of a script.
#[derive(Debug)]
pub struct Call {
    /// What is sent.
    pub script: ScriptCall,
    /// How many requests it has.
    pub requests: usize,
}

/// The runs that execute these requests, in their order. `run_id` is what Redis said in the handshake of the
/// connection that they go over: a connection leads to one run of one Redis. Requests that share a run of a script also
/// share the first one's `fresh`: a stamp names a membership of one partition.
///
/// Where several are sent at a time, those come last whose script Redis does not know yet
/// ([`Connection::run_all`](crate::node::Connection::run_all)): to the node they are late.
///
/// # Errors
///
/// A number that a node cannot keep. Nothing was sent.
pub fn calls(keys: &Keys, run_id: &str, requests: &[NodeRequest]) -> Result<Vec<Call>, NodeError> {
    let mut calls: Vec<Call> = Vec::with_capacity(1);
    let mut open: Option<Kind> = None;
    let (mut records, mut bytes) = (0, 0);
    // Most often all go in one run.
    let mut room = requests.iter().map(sections::arguments).sum::<usize>();
    for request in requests {
        let kind = Kind::of(request);
        let (more_records, more_bytes) = (sections::records(request), sections::content_bytes(request));
        let fits = records + more_records <= CALL_RECORDS_MAX && bytes + more_bytes <= CALL_BYTES_MAX;
        if open.as_ref().is_some_and(|open| open.takes(&kind)) && fits {
            (records, bytes) = (records + more_records, bytes + more_bytes);
        } else {
            let mut script = ScriptCall {
                script: script_of(request),
                keys: Vec::with_capacity(1 + 4 * requests.len()),
                args: Vec::with_capacity(3 + std::mem::take(&mut room)),
            };
            script.keys.push(keys.node().into());
            script.args.extend(head(run_id, request)?.into_iter().flatten());
            calls.push(Call { script, requests: 0 });
            (open, records, bytes) = (Some(kind), more_records, more_bytes);
        }
        if let Some(Call { script, requests }) = calls.last_mut() {
            sections::args(request, &mut script.args)?;
            sections::keys(keys, request, &mut script.keys);
            *requests += 1;
        }
    }
    Ok(calls)
}

impl AsRef<ScriptCall> for Call {
    fn as_ref(&self) -> &ScriptCall {
        &self.script
    }
}

impl Call {
    /// The answers to its requests, in their order, from the reply of the script. A partition whose data is damaged
    /// has an error for its answer; the others are not affected.
    ///
    /// # Errors
    ///
    /// The reply of something else than this script.
    pub fn answers(&self, reply: Value) -> Result<Vec<Result<NodeAnswer, NodeError>>, NodeError> {
        reply::answers(reply, self.requests)
    }
}

/// What each script gets before its own arguments.
fn head(run_id: &str, request: &NodeRequest) -> Result<Option<[Arg; 3]>, NodeError> {
    let (cluster, list, fresh) = match request {
        NodeRequest::OfPartition { cluster, list, fresh, .. } | NodeRequest::Heartbeat { cluster, list, fresh, .. } => {
            (cluster, list, fresh)
        }
        // It names no stamp.
        NodeRequest::Prefix { cluster, list, .. } => (cluster, list, &Stamp(0)),
        NodeRequest::Mark(_) => return Ok(None),
    };
    let cluster = Fields::default().id(cluster.0).number(*list)?;
    Ok(Some([cluster.arg(), Fields::default().id(fresh.0).arg(), run_id.into()]))
}

fn script_of(request: &NodeRequest) -> &'static Script {
    match request {
        NodeRequest::Mark(_) => &MARK,
        NodeRequest::Heartbeat { .. } => &BEAT,
        NodeRequest::Prefix { .. } => &PREFIX,
        NodeRequest::OfPartition { request, .. } => match request {
            Request::Promise(_) => &PROMISE,
            Request::Write { .. } => &WRITE,
            Request::Read { .. } => &READ,
            Request::Stage { .. } => &STAGE,
            Request::Admit { .. } => &ADMIT,
            Request::Classic(_) => &CLASSIC,
        },
    }
}

#[cfg(test)]
mod tests;
