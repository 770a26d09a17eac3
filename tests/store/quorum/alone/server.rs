//! What a server does with the words of the real code.

use super::{
    attempt::{Attempt, Granted, Leads, Mem},
    mistake::Mistake,
    state::{Heartbeat, Server, Stage, State},
    world::{EARLIER, LATER, TOKENS_FROM, World, server_id},
};
use fencepost::testing::{
    domain::time::StoreTime,
    store::quorum::paxos::{
        acceptor::{Incarnation, Seen},
        ballot::{Position, Stamp},
        candidate::{Candidate, Question, Step},
        leader::{Heard, Leader, Purpose},
        message::Answer,
        recovery::{Admission, BUSY_WAIT, Decision, Known, Renumbering, Sight, Situation},
        tokens::Tokens,
        wall_clocks::WallClocks,
    },
};
use std::{sync::Arc, time::Duration};

impl Server {
    pub(crate) fn remembers(&mut self, attempt: usize, leader: &Leader) {
        self.alone.remembers(leader, EARLIER);
        self.has = Some(attempt);
    }

    pub(crate) fn forgets(&mut self) {
        self.alone.forgets();
        self.has = None;
    }

    pub(crate) fn known(&self) -> Known {
        Known { highest: self.attempted, token: self.token }
    }
}

impl World {
    /// A server gives up an attempt that has not read.
    pub(crate) fn gives_up(&self, state: &mut State, server: usize) {
        let Some(attempt) = state.server(server).works_with else { return };
        let over = match &*state.attempts[attempt] {
            Attempt::Campaigns { candidate, .. } => {
                Attempt::Campaigns { candidate: candidate.clone(), is_given_up: true }
            }
            Attempt::Promised { .. } | Attempt::Read { .. } => Attempt::Over,
            Attempt::Unused | Attempt::Leads(_) | Attempt::Over => return,
        };
        *state.attempt(attempt) = over;
    }

    pub(crate) fn campaign(&self, state: &mut State, server: usize) -> Option<()> {
        let it = &state.servers[server];
        let attempt = self.next_attempt(state, server, it.attempted.max(it.alone.highest()))?;
        self.gives_up(state, server);
        let (candidate, _) = Candidate::new(self.ballot(attempt), 1);
        *state.attempt(attempt) = Attempt::Campaigns { candidate, is_given_up: false };
        let it = state.server(server);
        (it.works_with, it.attempted) = (Some(attempt), self.ballot(attempt));
        Some(())
    }

    pub(crate) fn lead(&self, state: &mut State, server: usize) -> Option<()> {
        let attempt = state.servers[server].works_with?;
        let Attempt::Read { mut candidate, answer, stamp } = (*state.attempts[attempt]).clone() else { return None };
        let Answer::Piece { position, .. } = answer else { return None };
        let Step::Lead { leader, content } = candidate.answered(0, Question::Read, answer) else { return None };
        let leads = Leads::new(*leader, stamp, position, &content);
        let it = state.server(server);
        it.token = it.token.max(leads.last().counter);
        if !self.is(Mistake::ClaimsAtAck) {
            it.remembers(attempt, &leads.leader);
        }
        *state.attempt(attempt) = Attempt::Leads(Box::new(leads));
        Some(())
    }

    pub(crate) fn leads_mut<'a>(&self, state: &'a mut State, server: usize) -> Option<&'a mut Leads> {
        let attempt = state.servers[server].works_with?;
        match state.attempt(attempt) {
            Attempt::Leads(leads) => Some(leads),
            _ => None,
        }
    }

    pub(crate) fn grant(&self, state: &mut State, server: usize) -> Option<()> {
        let client = state.clients.iter().position(|client| client.stage == Stage::Idle)?;
        let leads = state.leads(&state.servers[server]).filter(|leads| leads.batches.len() < self.batches)?;
        let mem = Some(leads.last()).filter(|mem| mem.holder.is_none())?;
        let token = mem.counter + 1;
        let it = state.server(server);
        it.token = it.token.max(token);
        let leads = self.leads_mut(state, server)?;
        leads.write(Mem { holder: Some((client, token)), counter: token });
        leads.grants.push(Granted { batch: leads.batches.len() as u64, client, token });
        state.drawn = state.drawn.max(token);
        let floor = state.heard;
        let it = &mut state.clients[client];
        (it.stage, it.token, it.floor) = (Stage::CarriedOut, token, floor);
        Some(())
    }

    pub(crate) fn let_go(&self, state: &mut State, server: usize) -> Option<()> {
        let leads = state.leads(&state.servers[server]).filter(|leads| leads.batches.len() < self.batches)?;
        let mem = leads.last();
        let (client, _) = mem.holder?;
        if state.clients[client].stage != Stage::Done {
            return None;
        }
        self.leads_mut(state, server)?.write(Mem { holder: None, ..mem });
        Some(())
    }

    pub(crate) fn acknowledge(&self, state: &mut State, server: usize) -> Option<()> {
        let attempt = state.servers[server].works_with?;
        let leads = self.leads_mut(state, server)?;
        let (purpose, answer) = leads.answers.pop_front()?;
        assert_eq!(leads.leader.answered(0, purpose, answer), Heard::Leads);
        // What waited for the node to be admitted goes on.
        leads.send();
        let (committed, leader) = (leads.leader.committed(), leads.leader.clone());
        let grants = std::mem::take(&mut leads.grants);
        let (answered, rest) = grants.into_iter().partition(|grant| grant.batch <= committed);
        leads.grants = rest;
        let answered: Vec<Granted> = answered;
        for Granted { client, token, .. } in answered {
            let it = &mut state.clients[client];
            if it.stage == Stage::CarriedOut {
                (it.stage, it.token) = (Stage::Answered, token);
            }
        }
        if self.is(Mistake::ClaimsAtAck) {
            state.server(server).remembers(attempt, &leader);
        }
        Some(())
    }

    /// A leader is refused: another ballot is promised, or another server was first to begin the membership.
    pub(crate) fn refuse(&self, state: &mut State, server: usize) -> Option<()> {
        let attempt = state.servers[server].works_with?;
        let leads = state.leads(&state.servers[server])?;
        let header = state.stands()?;
        let is_second = leads.arrived == 0
            && leads.begins.is_some_and(|(stamp, _)| stamp == header.stamp)
            && header.accepted.ballot != self.ballot(attempt);
        if !is_second && header.promised <= self.ballot(attempt) {
            return None;
        }
        let sent = leads.sent.iter().rfind(|sent| matches!(sent.purpose, Purpose::Admit { .. })).filter(|_| is_second);
        let sent = sent.map(|sent| (sent.purpose, sent.request.clone()));
        let leads = self.leads_mut(state, server)?;
        let (purpose, request) = match sent {
            Some(sent) => sent,
            // What was sent may be lost, so a new connection begins with a question.
            None => {
                leads.leader.reconnected(0);
                leads.leader.next(0)?
            }
        };
        let answer = state.deliver(&request);
        let leads = self.leads_mut(state, server)?;
        let heard = leads.leader.answered(0, purpose, answer);
        assert!(matches!(heard, Heard::Deposed(_)), "{heard:?}");
        let is_over = leads.leader.is_over();
        let it = state.server(server);
        it.works_with = None;
        if is_over || self.is(Mistake::ForgetsAtNo) {
            it.forgets();
        }
        Some(())
    }

    /// A server sees where the voting node stands.
    pub(crate) fn see(&self, state: &mut State, server: usize) -> Option<()> {
        let header = state.stands()?;
        let seen = Seen::Votes { promised: header.promised, accepted: header.accepted };
        let (promised, written) = (header.promised, header.accepted.ballot);
        let before = Arc::clone(&state.servers[server]);
        let leads = state.leads(&before).map(|_| before.works_with);
        let it = state.server(server);
        it.seen = it.seen.max(written);
        if it.alone.sees(&seen, LATER, LATER) == Sight::Outlived {
            it.has = None;
            if leads.is_some() {
                it.works_with = None;
            }
        }
        if let Some(mistake) = self.mistake {
            mistake.sees(self, it, promised, written);
        }
        (*state.servers[server] != *before).then_some(())
    }

    /// It sees that the node lost its memory, and reports what it has.
    pub(crate) fn report(&self, state: &mut State, server: usize) -> Option<()> {
        if state.stands().is_some() {
            return None;
        }
        let was_named = state.named().is_some();
        let fresh = Stamp(u128::from(state.stamps) + 1);
        let seen = Arc::make_mut(&mut state.node).seen(Incarnation(state.life), fresh);
        state.stamps += u64::from(!was_named);
        let before = Arc::clone(&state.servers[server]);
        let Sight::Stranger(next) = state.server(server).alone.sees(&seen, LATER, LATER) else { return None };
        assert_eq!(state.named(), Some(next));
        if state.leads(&before).is_none() && !self.is(Mistake::SameBallotLate) {
            self.gives_up(state, server);
            state.server(server).works_with = None;
        }
        let it = state.server(server);
        let mut report = it.alone.report(0, it.known())?;
        if self.is(Mistake::KnownByPromise) {
            report.written = report.highest;
        }
        it.report = Some(Heartbeat(report));
        (!was_named || *state.servers[server] != *before).then_some(())
    }

    /// It begins the node's next membership, if that is for it to do.
    pub(crate) fn admit(&self, state: &mut State, server: usize) -> Option<()> {
        let next = state.named().filter(|_| state.stands().is_none())?;
        let (mut reports, it) = (state.reports(), &state.servers[server]);
        // What it has not seen it does not decide. (What it decided before may arrive now, in vain.)
        it.alone.report(0, it.known()).filter(|mine| mine.next == next)?;
        let lives = |server: &usize| !state.servers[*server].is_paused;
        let mut living = (0..self.servers).filter(lives).map(server_id).collect();
        if let Some(mistake) = self.mistake {
            mistake.listens(state, server, next, &mut reports, &mut living);
        }
        let wall = if self.has_clock { state.drawn - TOKENS_FROM } else { 0 };
        let clocks = WallClocks::of(StoreTime::from_micros(wall), [wall]);
        let now = LATER.after(BUSY_WAIT);
        let situation = Situation { now, reports: &reports, living: &living, turn: Duration::ZERO, clocks };
        match it.alone.decides(it.known(), &situation) {
            Decision::Wait => None,
            Decision::Recall(admission) => self.recall(state, server, admission),
            Decision::GoOn(admission) => self.go_on(state, server, admission),
        }
    }

    /// It begins the membership with its own memory.
    fn recall(&self, state: &mut State, server: usize, admission: Admission) -> Option<()> {
        let has = state.servers[server].has?;
        let Attempt::Leads(old) = (*state.attempts[has]).clone() else { return None };
        if self.mistake.is_some_and(Mistake::admits_with_its_ballot) {
            return self.admit_anew(state, server, &old, admission);
        }
        let attempt = self.next_attempt(state, server, admission.above)?;
        let mem = old.last();
        let skip = if self.is(Mistake::NoSkipByLeader) { mem.counter } else { admission.skip };
        let renumbering = Renumbering::of(&old.leader, skip);
        let mut leader = renumbering.begins(self.ballot(attempt), admission.next, 0, mem.counter)?;
        let keeps_tokens = self.is(Mistake::KeepsTokens);
        if keeps_tokens {
            leader =
                Leader::begins(self.ballot(attempt), admission.next, 0, Tokens::all_answered(skip.max(mem.counter)));
        }
        let renumbered = |token| if keeps_tokens { token } else { renumbering.token(token).expect("tokens are left") };
        let holder = mem.holder.map(|(client, token)| (client, renumbered(token)));
        let mem = Mem { holder, counter: leader.token_and_time().0 };
        let mut leads = Leads::with(leader, admission.next, Position::default(), mem);
        // Its caller asks again, and finds its lease.
        let waits = |grant: &&Granted| {
            state.clients[grant.client].stage == Stage::CarriedOut
                && (keeps_tokens || holder.is_some_and(|(client, _)| client == grant.client))
        };
        let again = old.grants.iter().filter(waits);
        leads.grants = again.map(|grant| Granted { batch: 1, token: renumbered(grant.token), ..*grant }).collect();
        for Granted { client, token, .. } in &leads.grants {
            state.clients[*client].token = *token;
        }
        state.drawn = state.drawn.max(mem.counter);
        self.begins(state, server, attempt, leads)
    }

    /// It begins the membership with what the node kept.
    fn go_on(&self, state: &mut State, server: usize, admission: Admission) -> Option<()> {
        let attempt = self.next_attempt(state, server, admission.above)?;
        let (mut candidate, step) = Candidate::of_stranger(self.ballot(attempt), admission.next, admission.skip);
        let Step::Send(mut requests) = step else { return None };
        let (node, question, request) = requests.remove(0);
        let answer = state.deliver(&request);
        let Step::Lead { leader, content } = candidate.answered(node, question, answer) else { return None };
        let leads = Leads::new(*leader, admission.next, Position::default(), &content);
        self.begins(state, server, attempt, leads)
    }

    pub(crate) fn begins(&self, state: &mut State, server: usize, attempt: usize, mut leads: Leads) -> Option<()> {
        self.gives_up(state, server);
        leads.begins = Some((leads.stamp, state.life));
        leads.stage();
        let it = state.server(server);
        it.works_with = Some(attempt);
        it.attempted = it.attempted.max(self.ballot(attempt));
        it.token = it.token.max(leads.last().counter);
        if !self.is(Mistake::ClaimsAtAck) {
            it.remembers(attempt, &leads.leader);
        }
        *state.attempt(attempt) = Attempt::Leads(Box::new(leads));
        Some(())
    }
}
