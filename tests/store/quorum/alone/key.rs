//! When two states are equal: what has no effect any more is left out.

use super::{
    attempt::{Attempt, Leads, Mem},
    state::{Server, Stage, State},
};
use fencepost::testing::store::quorum::paxos::{ballot::Position, message::Answer};
use std::hash::{Hash, Hasher};

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        if self.key.is_exact { format!("{self:?}").hash(hasher) } else { self.key().hash(hasher) }
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        if self.key.is_exact { format!("{self:?}") == format!("{other:?}") } else { self.key() == other.key() }
    }
}

fn one_up(number: Option<usize>) -> u64 {
    number.map_or(0, |number| number as u64 + 1)
}

fn push_position(key: &mut Vec<u64>, at: Position) {
    key.extend([at.ballot.round, at.seq]);
}

/// The token of a lease is known from its client, as far as it matters.
fn push_mem(key: &mut Vec<u64>, mem: Mem) {
    key.extend([one_up(mem.holder.map(|(client, _)| client)), mem.counter]);
}

fn low(stamp: fencepost::testing::store::quorum::paxos::ballot::Stamp) -> u64 {
    u64::try_from(stamp.0).expect("a small number")
}

impl State {
    pub(crate) fn key(&self) -> Vec<u64> {
        let mut key = Vec::with_capacity(128);
        key.extend([self.life, self.stamps, self.drawn, self.heard, self.all_heard]);
        self.push_node(&mut key);
        for (at, attempt) in self.attempts.iter().enumerate() {
            self.push_attempt(&mut key, at, attempt);
        }
        for server in &self.servers {
            self.push_server(&mut key, server);
        }
        for client in &self.clients {
            key.push(client.stage as u64);
            if client.stage != Stage::Done {
                key.extend([client.token, client.floor]);
            }
        }
        let left = self.left;
        key.extend([left.losses, left.crashes, left.pauses, left.leaves].map(u64::from));
        if left.losses > 0 {
            key.push(left.snapshots.into());
            if let Some(snapshot) = &self.snapshot {
                push_mem(&mut key, Mem::of(&snapshot.content, snapshot.token.unwrap_or_default()));
                key.push(snapshot.header.as_ref().map_or(0, |header| header.accepted.ballot.round));
            }
        }
        key.push(self.breach.is_some().into());
        key
    }

    fn push_node(&self, key: &mut Vec<u64>) {
        push_mem(key, self.kept());
        match self.stands() {
            Some(header) => {
                key.extend([1, low(header.stamp), header.promised.round]);
                push_position(key, header.accepted);
            }
            None => {
                let written = self.node.header.as_ref().map_or(0, |header| header.accepted.ballot.round);
                key.extend([0, self.named().map_or(0, low), written]);
            }
        }
    }

    fn push_attempt(&self, key: &mut Vec<u64>, at: usize, attempt: &Attempt) {
        match attempt {
            Attempt::Unused => key.push(0),
            Attempt::Campaigns { is_given_up, .. } => key.push(if *is_given_up { 6 } else { 1 }),
            Attempt::Promised { answer, .. } => {
                let Answer::Promised { stamp, accepted } = answer else { unreachable!("{answer:?}") };
                key.extend([2, low(*stamp)]);
                push_position(key, *accepted);
            }
            Attempt::Read { answer, stamp, .. } => {
                let Answer::Piece { position, token, records, .. } = answer else { unreachable!("{answer:?}") };
                key.extend([3, low(*stamp), *token]);
                key.push(records.first().map_or(0, |(_, record)| u64::from(record[0]) + 1));
                push_position(key, *position);
            }
            Attempt::Leads(leads) => self.push_leads(key, at, leads),
            Attempt::Over => key.push(5),
        }
    }

    fn push_leads(&self, key: &mut Vec<u64>, at: usize, leads: &Leads) {
        let is_kept = self.servers.iter().any(|it| it.works_with == Some(at) || it.has == Some(at));
        let stands = self.stands();
        let may_begin = leads
            .begins
            .is_some_and(|(next, life)| life == self.life && stands.is_none() && self.named() == Some(next));
        let ballot = leads.leader.ballot();
        let may_write = stands.is_some_and(|header| header.stamp == leads.stamp && header.promised <= ballot);
        let matters = self.key.all_arrives;
        if !(is_kept || may_begin || may_write || matters) {
            return key.push(5);
        }
        let (begins, life) = leads.begins.map_or((0, 0), |(next, life)| (low(next), life));
        let last = leads.batches.len() as u64;
        key.extend([4, low(leads.stamp), begins, life, last, leads.arrived, leads.leader.committed()]);
        if leads.arrived == 0 || matters {
            push_position(key, leads.base);
        }
        for (seq, mem) in (1..).zip(&leads.batches) {
            if seq == last || seq > leads.arrived || matters || self.key.has_old_batches || may_begin && seq == 1 {
                push_mem(key, *mem);
            }
        }
        if is_kept {
            // What tells grants apart that may have been answered, should the memory be recalled.
            key.push(leads.leader.acknowledged_token());
            let open = (1..).zip(&leads.batches).filter(|(seq, _)| *seq > leads.leader.committed());
            key.extend(open.map(|(_, mem)| mem.counter));
        }
        for grant in &leads.grants {
            key.extend([grant.batch, grant.client as u64, grant.token]);
        }
        key.push(u64::MAX);
    }

    fn push_server(&self, key: &mut Vec<u64>, server: &Server) {
        let memory = server.alone.memory().map_or(0, |ballot| ballot.round);
        debug_assert_eq!(memory, one_up(server.has));
        let top = server.attempted.max(server.alone.highest()).round;
        let token = |token| if self.key.has_no_told_tokens { 0 } else { token };
        key.extend([server.is_paused.into(), one_up(server.works_with), memory, server.seen.round, top]);
        key.push(token(server.token));
        match server.report {
            Some(report) if self.stands().is_none() || low(report.0.next) == 0 => {
                let (report, round) = (report.0, |ballot: Option<_>| ballot.unwrap_or_default());
                key.extend([low(report.next) + 1, report.written.round, report.highest.round, token(report.token)]);
                key.push(round(report.memory.map(|ballot| ballot.round)));
            }
            _ => key.push(0),
        }
    }
}
