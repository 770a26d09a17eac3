//! Deliberate mistakes, made between the real servers and nodes. Each must lead to a breach: the world is large enough
//! to show why its rule is there.

use super::{
    node::{Redis, stamp},
    server::records,
    world::{For, Sent, World},
};
use fencepost::testing::store::quorum::paxos::{
    acceptor::Incarnation,
    ballot::{Ballot, Position, Stamp, TransferId},
    leader::{Leader, Purpose},
    message::{Answer, Request},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A node that lost its memory votes at once, as if it were new.
    VotesAtOnce,
    /// A node comes back without its last promise, and nobody notices.
    ForgetsPromise,
    /// A leader admits a node and asks nobody to confirm it.
    AdmitsUnconfirmed,
    /// A leader admits a node when one of the two others has confirmed it.
    AdmitsConfirmedByOne,
    /// A leader admits a node with what is committed, without what it has written beyond that.
    AdmitsWithCommitted,
    /// A candidate leads after one round of promises.
    AsksOnce,
    /// The same, but what it adopts is first to be taken by a majority, each node in the life that it promised in.
    SameLifeOnly,
    /// A node takes writes of ballots below the one that it promised.
    NoPromise,
    /// A candidate goes by the number of a batch before its ballot.
    BestBySequence,
    /// A node goes on to heed servers whose list of nodes is an old one.
    OldListHeard,
    /// A rebuild has no list to itself.
    RebuildsUnfenced,
    /// Two rebuilds may have one list.
    RebuildsShareList,
    /// A rebuild takes what comes first, not what is best.
    RebuildsFromFirst,
}

/// Added to rounds that stand for numbers of batches.
const SEQUENCES: u64 = 1000;

impl Mistake {
    /// A request arrives at its node.
    pub(crate) fn arrives(self, world: &World, redis: &mut Redis, sent: &Sent) -> Option<Answer> {
        let request = &Self::unmapped(&sent.request);
        let answer = world.execute(redis, sent.server, request);
        if let (Self::NoPromise, Request::Write { position, .. }, Some(Answer::No(promised))) = (self, request, &answer)
            && position.ballot < *promised
        {
            forget_promise(world, redis);
            let answer = world.execute(redis, sent.server, request);
            world.execute(redis, sent.server, &Request::Promise(*promised));
            return answer;
        }
        answer
    }

    /// A leader sends this.
    pub(crate) fn sends(self, sent: &mut Sent, leader: &Leader, histories: &[Vec<u8>]) {
        let For::Leader(Purpose::Admit { stamp, position, .. }) = sent.purpose else { return };
        if self != Self::AdmitsWithCommitted {
            return;
        }
        let seq = leader.committed().max(1);
        let position = Position { seq, ..position };
        let records = records(&histories[usize::try_from(seq).expect("a small number") - 1]);
        let (transfer, count) = (TransferId(u128::MAX), records.len());
        let token = records.first().map_or(0, |(_, history)| history.len() as u64);
        sent.pieces = vec![Request::Stage { position, transfer, piece: records.into() }];
        sent.request = Request::Admit { position, transfer, count, time: 0, token, stamp };
        sent.purpose = For::Leader(Purpose::Admit { stamp, position, transfer });
    }

    /// A leader has heard of a stranger: whom it takes for asked.
    pub(crate) fn believes(self, leader: &mut Leader, stranger: usize, next: Stamp) {
        let confirming = match self {
            Self::AdmitsUnconfirmed => 2,
            Self::AdmitsConfirmedByOne => 1,
            _ => return,
        };
        // One that is no member of the list may be among them: the leader only counts.
        for node in (0..3).filter(|node| *node != stranger).take(confirming) {
            let answer = Answer::Promised { stamp: next, accepted: Position::default() };
            leader.answered(node, Purpose::Confirm { stranger, next }, answer);
        }
    }

    /// Whether a candidate takes its second question for answered.
    pub(crate) fn asks_once(self) -> bool {
        matches!(self, Self::AsksOnce | Self::SameLifeOnly)
    }

    /// A node loses its memory.
    pub(crate) fn loses(self, world: &World, redis: &mut Redis) {
        match self {
            Self::ForgetsPromise => forget_promise(world, redis),
            Self::VotesAtOnce => *redis = Redis::created(&world.mark(0), Incarnation(redis.incarnation.0 + 1)),
            _ => redis.lose(),
        }
    }

    /// Puts the number of a batch before its ballot, in what a server hears of other leaders' batches.
    pub(crate) fn by_sequence(own: Ballot, answer: Answer) -> Answer {
        let map = |at: Position| {
            let round = at.seq * SEQUENCES + at.ballot.round;
            if at.ballot == own { at } else { Position { ballot: Ballot { round, ..at.ballot }, seq: 0 } }
        };
        match answer {
            Answer::Promised { stamp, accepted } => Answer::Promised { stamp, accepted: map(accepted) },
            Answer::At(accepted) => Answer::At(map(accepted)),
            Answer::Piece { position, time, token, records, next } => {
                Answer::Piece { position: map(position), time, token, records, next }
            }
            answer => answer,
        }
    }

    /// And back, in what it sends.
    fn unmapped(request: &Request) -> Request {
        match request {
            Request::Write { stamp, before, position, changes } if before.ballot.round >= SEQUENCES => {
                let (seq, round) = (before.ballot.round / SEQUENCES, before.ballot.round % SEQUENCES);
                let before = Position { ballot: Ballot { round, ..before.ballot }, seq };
                Request::Write { stamp: *stamp, before, position: *position, changes: changes.clone() }
            }
            request => request.clone(),
        }
    }
}

/// Makes a voting node anew, with all that it has but its promise.
fn forget_promise(world: &World, redis: &mut Redis) {
    let Some((position, history)) = redis.kept() else { return };
    debug_assert_eq!(redis.stands().map(|it| it.stamp), Some(stamp(redis.incarnation.0)));
    redis.rewrite(&world.mark(0), (position, records(&history)));
}
