//! A node, kept twice: by its twin, and by the scripts on a real Redis.

use super::{
    answers::{label, wholly},
    kept,
    op::{Beat, Knows, Op, SPOILT, What, ballot, server},
    requests::{classic_key, key, many},
};
use crate::redis_server::Redis;
use deadpool_redis::redis;
use fencepost::testing::{
    node::{self, Connection, NodeError, RedisUrl, Script, Value},
    store::{
        content::{Bytes, Content},
        quorum::{
            nodes::{keys::Keys, scripts},
            paxos::{
                acceptor::Incarnation,
                ballot::{Position, Stamp, TransferId},
                classic_keys::ClassicValue,
                message::{Answer, Request},
                node::{ClusterId, Mark, Node, NodeAnswer, NodeRequest},
            },
        },
    },
};
use std::{cell::RefCell, collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{runtime::Runtime, time::timeout};

/// How long a connection may take after a restart.
const CONNECTED_MAX: Duration = Duration::from_secs(20);
/// The list that the first mark has.
const FIRST_LIST: u64 = 5;

pub(crate) struct Both {
    pub(crate) redis: Redis,
    pub(crate) raw: redis::Connection,
    runtime: Runtime,
    node: Arc<node::Node>,
    pub(super) twin: Node,
    /// The ids of the incarnations so far. The last one is the present one.
    lives: Vec<String>,
    pub(crate) run_id: String,
    pub(super) saved: Option<(Vec<u8>, Node)>,
    sent: Vec<Vec<NodeRequest>>,
    made: u64,
    pub(crate) requests: usize,
    /// How often each request was answered in each way.
    pub(crate) seen: BTreeMap<String, usize>,
    /// A part of the scripts, and what is in its place.
    broken: Option<(&'static str, String)>,
    /// The scripts with it, by their sources.
    scripts: RefCell<BTreeMap<&'static str, &'static Script>>,
}

fn raw(redis: &Redis) -> redis::Connection {
    redis::Client::open(redis.url()).unwrap().get_connection().unwrap()
}

impl Both {
    pub(crate) fn start() -> Self {
        let redis = Redis::start(&[]);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let node = Arc::new(node::Node::new(RedisUrl::parse(&redis.url()).unwrap()));
        let own = Arc::clone(&node);
        runtime.spawn(async move { own.run().await });
        let (raw, twin, lives) = (raw(&redis), Node::default(), Vec::new());
        let (saved, sent, seen, run_id) = (None, Vec::new(), BTreeMap::new(), String::new());
        let (made, requests, broken, scripts) = (1, 0, None, RefCell::default());
        let mut both =
            Self { redis, raw, runtime, node, twin, lives, run_id, saved, sent, made, requests, seen, broken, scripts };
        both.lives_anew();
        both
    }

    /// Puts another text in the place of a part of the scripts.
    #[allow(dead_code, reason = "the comparison of the scripts as they are does not use it")]
    pub(crate) fn breaks(&mut self, part: &'static str, text: &str) {
        self.broken = Some((part, text.to_owned()));
    }

    /// The script that runs in place of this one.
    fn script(&self, of: &'static Script) -> &'static Script {
        let Some((part, text)) = &self.broken else { return of };
        let mut scripts = self.scripts.borrow_mut();
        scripts.entry(of.source()).or_insert_with(|| {
            let source = of.source().replace(part, text);
            Box::leak(Box::new(Script::new(Box::leak(source.into_boxed_str()))))
        })
    }

    /// Begins anew, with nothing known to either.
    pub(crate) fn forget(&mut self) {
        redis::cmd("FLUSHALL").exec(&mut self.raw).unwrap();
        (self.twin, self.saved) = (Node::default(), None);
        self.sent.clear();
    }

    pub(crate) fn step(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Request(knows, partition, what) => {
                let request = self.request(&self.twin.clone(), *partition, what);
                let request = self.of_partition(*knows, *partition, request);
                let answers = self.send(vec![request.clone()])?;
                if answers == [NodeAnswer::Unmarked] {
                    self.send(vec![self.mark(*knows)])?;
                    self.send(vec![request])?;
                }
            }
            Op::Together(beat, whats) => {
                let (mut requests, mut scratch) = (Vec::new(), self.twin.clone());
                let fresh = self.fresh();
                if let Some(beat) = beat {
                    let request = self.heartbeat(Knows::It, fresh, beat);
                    scratch.answer(self.present(), &request);
                    requests.push(request);
                }
                for (partition, what) in whats.iter().filter(|(_, what)| !matches!(what, What::Read { .. })) {
                    let request = self.request(&scratch, *partition, what);
                    let mut request = self.of_partition(Knows::It, *partition, request);
                    if let NodeRequest::OfPartition { fresh: own, .. } = &mut request {
                        *own = fresh;
                    }
                    drop(scratch.execute(self.present(), &request));
                    requests.push(request);
                }
                self.send(requests)?;
            }
            Op::Snapshot { partition, ballot, put, many } => self.snapshot(*partition, *ballot, put, *many)?,
            Op::Mark(knows) => drop(self.send(vec![self.mark(*knows)])?),
            Op::Beat(knows, beat) => {
                let fresh = self.fresh();
                self.send(vec![self.heartbeat(*knows, fresh, beat)])?;
            }
            Op::Prefix(knows, number) => {
                let ((cluster, list), prefix) = (self.knows(*knows), ["", "lock:", "é{\n"][*number].into());
                self.send(vec![NodeRequest::Prefix { cluster, list, prefix }])?;
            }
            Op::Classic(partition, number, what) => self.classic(&classic_key(*partition, *number), *partition, *what),
            Op::Again(back) => {
                if let Some(requests) = self.sent.iter().rev().nth(*back).cloned() {
                    self.send(requests)?;
                }
            }
            Op::Raise(partition, by) => {
                let key = format!("{{fp}}:q{partition}:s");
                let sequencer = &mut self.twin.partitions.entry(*partition).or_default().token;
                let raised = sequencer.unwrap_or_default() + u64::from(*by);
                *sequencer = Some(raised);
                redis::cmd("SET").arg(key).arg(raised).exec(&mut self.raw).unwrap();
            }
            Op::DeleteSequencer(partition) => {
                redis::cmd("DEL").arg(format!("{{fp}}:q{partition}:s")).exec(&mut self.raw).unwrap();
                self.twin.partitions.entry(*partition).or_default().token = None;
            }
            // To the twin it is missing.
            Op::SpoilSequencer(partition, what) => {
                let (key, spoilt) = (format!("{{fp}}:q{partition}:s"), SPOILT[*what]);
                redis::cmd("SET").arg(key).arg(spoilt).exec(&mut self.raw).unwrap();
                self.twin.partitions.entry(*partition).or_default().token = None;
            }
            Op::Damage(partition, is_text) => self.damage(*partition, *is_text),
            Op::ForgetScripts => redis::cmd("SCRIPT").arg("FLUSH").exec(&mut self.raw).unwrap(),
            Op::Flush | Op::Restart(_) | Op::Promote | Op::Save | Op::Restore => self.change_life(op),
        }
        self.compare_kept()
    }

    /// A classic client takes a key, unless it is there, with a text or with another type; or deletes it.
    fn classic(&mut self, key: &Bytes, partition: u16, what: Option<bool>) {
        let entry = self.twin.partitions.entry(partition).or_default().classic.0.entry(key.clone()).or_default();
        match what {
            None => {
                redis::cmd("DEL").arg(&key[..]).exec(&mut self.raw).unwrap();
                entry.value = None;
            }
            Some(is_text) if entry.value.is_none() => {
                let (verb, field) = if is_text { ("SET", None) } else { ("HSET", Some("field")) };
                redis::cmd(verb).arg(&key[..]).arg(field).arg("theirs").exec(&mut self.raw).unwrap();
                let text = is_text.then(|| ClassicValue::Text(b"theirs".as_slice().into()));
                entry.value = Some(text.unwrap_or(ClassicValue::Other));
            }
            Some(_) => {}
        }
    }

    pub(crate) fn present(&self) -> Incarnation {
        Incarnation(self.lives.len() as u64 - 1)
    }

    /// Redis is in another incarnation.
    pub(super) fn lives_anew(&mut self) {
        self.raw = raw(&self.redis);
        self.run_id = self.redis.info("server", "run_id");
        let life = format!("{}{}", self.run_id, self.redis.info("replication", "master_replid"));
        assert!(!self.lives.contains(&life), "another incarnation has another id");
        self.lives.push(life);
    }

    fn compare_kept(&mut self) -> Result<(), String> {
        let (expected, found) = (kept::by_twin(&self.twin, &self.lives), kept::by_redis(&mut self.raw, &self.twin)?);
        if expected == found { Ok(()) } else { Err(format!("the twin keeps {expected:?}\nand Redis {found:?}")) }
    }

    /// A number that was never used.
    pub(crate) fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn fresh(&mut self) -> Stamp {
        Stamp(0xffee_0000_0000_0000_0000_0000_0000_0000 + u128::from(self.number()))
    }

    pub(crate) fn mark(&self, knows: Knows) -> NodeRequest {
        let (cluster, list) = self.knows(knows);
        let more = u64::from(matches!(knows, Knows::Rival));
        let members = (0..=list % 4 + more).map(|number| Arc::from(format!("redis://[::1]:{number}/\"é\n")));
        NodeRequest::Mark(Mark {
            cluster,
            partitions: 16,
            list,
            members: members.collect(),
            rebuild: (list % 2 == 0).then_some(list),
        })
    }

    pub(crate) fn knows(&self, knows: Knows) -> (ClusterId, u64) {
        let mark = self.twin.mark.as_ref();
        let (cluster, list) = mark.map_or((ClusterId(1), FIRST_LIST), |mark| (mark.cluster, mark.list));
        match knows {
            Knows::It | Knows::Rival => (cluster, list),
            Knows::Older => (cluster, list - 1),
            Knows::Newer => (cluster, list + 1),
            Knows::Another => (ClusterId(cluster.0 + 1), list),
        }
    }

    pub(crate) fn of_partition(&mut self, knows: Knows, partition: u16, request: Request) -> NodeRequest {
        let (cluster, list) = self.knows(knows);
        NodeRequest::OfPartition { cluster, list, partition, fresh: self.fresh(), request }
    }

    fn heartbeat(&self, knows: Knows, fresh: Stamp, beat: &Beat) -> NodeRequest {
        let (cluster, list) = self.knows(knows);
        let Beat { partitions, server: number, payload, gone } = beat;
        let (server, gone) = (server(*number), gone.iter().map(|number| server(*number)).collect());
        let (partitions, payload) = (*partitions, payload.as_slice().into());
        NodeRequest::Heartbeat { cluster, list, partitions, fresh, server, payload, gone }
    }

    /// What a leader does with a node that needs a snapshot.
    fn snapshot(&mut self, partition: u16, number: usize, put: &[u8], count: u16) -> Result<(), String> {
        let ballot = ballot(number);
        let look = self.of_partition(Knows::It, partition, Request::Promise(ballot));
        let answers = self.send(vec![look])?;
        let (stamp, seq) = match answers[..] {
            [NodeAnswer::OfPartition(Answer::Promised { stamp, accepted })] if accepted.ballot == ballot => {
                (stamp, accepted.seq + 1)
            }
            [NodeAnswer::OfPartition(Answer::Promised { stamp, .. } | Answer::Stranger(stamp))] => (stamp, 1),
            _ => return Ok(()),
        };
        let mut content = Content::default();
        content.0.extend(put.iter().map(|number| self.record(key(*number))).collect::<Vec<_>>());
        content.0.extend((0..count).map(|number| (many(number), Bytes::default())));
        let (position, transfer) = (Position { ballot, seq }, TransferId(self.number().into()));
        let (time, token, count) = (self.number(), self.number(), content.0.len());
        let records: Vec<_> = content.0.into_iter().collect();
        for piece in records.chunks(600) {
            let stage = Request::Stage { position, transfer, piece: piece.into() };
            let stage = self.of_partition(Knows::It, partition, stage);
            self.send(vec![stage])?;
        }
        let admit = Request::Admit { position, transfer, count, time, token, stamp };
        let admit = self.of_partition(Knows::It, partition, admit);
        let answers = self.send(vec![admit])?;
        if matches!(answers[..], [NodeAnswer::OfPartition(Answer::Done | Answer::At(_) | Answer::No(_))]) {
            return Ok(());
        }
        Err(format!("a snapshot was answered {answers:?}"))
    }

    /// Sends them to both, and compares. The answers of partitions that are not damaged.
    pub(crate) fn send(&mut self, requests: Vec<NodeRequest>) -> Result<Vec<NodeAnswer>, String> {
        self.requests += requests.len();
        let (mut expected, mut how) = (Vec::new(), Vec::new());
        for request in &requests {
            let before = self.twin.clone();
            let votes = |node: &Node| match request {
                NodeRequest::OfPartition { partition, .. } => node
                    .partitions
                    .get(partition)
                    .is_some_and(|it| it.header.as_ref().is_some_and(|header| header.incarnation == self.present())),
                NodeRequest::Mark(_) | NodeRequest::Heartbeat { .. } | NodeRequest::Prefix { .. } => false,
            };
            let (as_member, present) = (votes(&before), self.present());
            let answer = wholly(request, |request| self.twin.execute(present, request).map_err(|why| why.to_string()));
            how.push((as_member, self.twin != before));
            expected.push(answer.0);
        }
        let found: Vec<(Result<NodeAnswer, String>, usize)> =
            if let [request @ NodeRequest::OfPartition { request: Request::Read { .. }, .. }] = &requests[..] {
                vec![wholly(request, |request| self.execute_at_redis(std::slice::from_ref(request)).remove(0))]
            } else {
                self.execute_at_redis(&requests).into_iter().map(|answer| (answer, 1)).collect()
            };
        for (index, request) in requests.iter().enumerate() {
            let (answer, pieces) = &found[index];
            if *answer != expected[index] {
                return Err(format!("{request:?}:\nthe twin says {:?}\nand Redis {answer:?}", expected[index]));
            }
            *self.seen.entry(label(request, answer, how[index], *pieces)).or_default() += 1;
        }
        self.compare_kept()?;
        self.sent.push(requests);
        Ok(expected.into_iter().flatten().collect())
    }

    /// Sends them to Redis, one run of a script after the other: of several that are sent at a time, those come last
    /// whose script Redis does not know.
    fn execute_at_redis(&self, requests: &[NodeRequest]) -> Vec<Result<NodeAnswer, String>> {
        let mut answers = Vec::new();
        for call in scripts::calls(&Keys::default(), &self.run_id, requests).unwrap() {
            let reply = self.run(&call);
            answers.extend(call.answers(reply).unwrap().into_iter().map(|answer| match answer {
                Err(NodeError::Corrupt(why)) => Err(why),
                answer => Ok(answer.unwrap()),
            }));
        }
        answers
    }

    pub(crate) fn run(&self, scripts::Call { script, .. }: &scripts::Call) -> Value {
        loop {
            match self.runtime.block_on(self.connection().run(self.script(script.script), &script.keys, &script.args)) {
                Ok(reply) => return reply,
                // A check of the connection found another incarnation, and closed it.
                Err(NodeError::Unavailable(why)) if !why.contains("Redis says") => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A connection to the present run.
    fn connection(&self) -> Arc<Connection> {
        let connected = async {
            loop {
                match self.node.connection(0) {
                    Ok(connection) if connection.info().run_id == self.run_id => return connection,
                    _ => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        };
        self.runtime.block_on(async { timeout(CONNECTED_MAX, connected).await.expect("Redis is there again") })
    }
}
