//! Commands, classic clients, lost connections and late messages in random order: a lease never coexists with a foreign
//! key.

use super::*;
use proptest::{collection::vec, prelude::*};

#[derive(Clone, Debug)]
enum Op {
    Acquire(bool),
    /// Of a request so many before the last.
    Claim(u128),
    Release(u128),
    Renew(u128),
    GiveUp(u128),
    DropCall(u128),
    View,
    /// A classic client, as far as the key is free.
    Take,
    Give,
    Deliver(usize),
    /// The connection is lost. What was under way may arrive later.
    Lose,
    Late(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let back = || 0..3_u128;
    prop_oneof![
        6 => any::<bool>().prop_map(Op::Acquire),
        5 => back().prop_map(Op::Claim),
        4 => back().prop_map(Op::Release),
        3 => back().prop_map(Op::Renew),
        1 => back().prop_map(Op::GiveUp),
        1 => back().prop_map(Op::DropCall),
        1 => Just(Op::View),
        3 => Just(Op::Take),
        3 => Just(Op::Give),
        20 => (0..3_usize).prop_map(Op::Deliver),
        1 => Just(Op::Lose),
        1 => (0..6_usize).prop_map(Op::Late),
        4 => prop_oneof![4 => 1..400_u64, 1 => 1_000..9_000_u64].prop_map(Op::Pass),
    ]
}

struct Story {
    bench: Bench,
    /// The last request.
    last: u128,
    lost: Vec<Request>,
    granted: usize,
    classic: usize,
}

impl Story {
    fn step(&mut self, op: &Op) {
        let of = |back: &u128| acquire(self.last.saturating_sub(*back).max(1), true);
        match op {
            Op::Acquire(wait) => {
                self.last += 1;
                self.bench.run(Command::Acquire(acquire(self.last, *wait)));
            }
            Op::Claim(back) => drop(self.bench.run(Command::Claim(of(back).call, of(back).candidate))),
            Op::Release(back) => drop(self.bench.run(Command::Release(of(back).candidate.lease_id))),
            Op::Renew(back) => {
                self.bench.run(Command::Renew { lease_id: of(back).candidate.lease_id, ttl: None });
            }
            Op::GiveUp(back) => drop(self.bench.run(Command::GiveUp(of(back).call))),
            Op::DropCall(back) => drop(self.bench.run(Command::DropCall(of(back).call))),
            Op::View => drop(self.bench.run(Command::View { token: None })),
            Op::Take if self.bench.key().is_none() => {
                self.classic += 1;
                self.bench.take();
            }
            Op::Take => {}
            Op::Give => self.bench.give(),
            Op::Deliver(at) => {
                self.bench.collect();
                if let Some(at) = self.bench.sent.len().checked_sub(1).map(|last| last.min(*at)) {
                    assert_eq!(self.bench.deliver(at), Heard::Leads);
                }
            }
            Op::Lose => {
                self.lost.extend(self.bench.sent.drain(..).map(|(_, request)| request));
                self.bench.lead.reconnected(0);
            }
            Op::Late(at) => {
                if let Some(request) = self.lost.get(*at) {
                    self.bench.node.answer(LIFE, Stamp(9), &request.clone());
                }
            }
            Op::Pass(ms) => self.bench.pass(Duration::from_millis(*ms)),
        }
        if let Some(holder) = self.bench.holder() {
            self.granted += 1;
            assert_eq!(self.bench.key(), Some(value(holder)), "after {op:?}");
        }
    }
}

#[test]
fn no_lease_stands_beside_a_key_that_is_not_its_own() {
    let seen = std::cell::RefCell::new([0; 2]);
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(ops in vec(op(), 1..=120))| {
        let mut story = Story { bench: Bench::new(), last: 0, lost: Vec::new(), granted: 0, classic: 0 };
        ops.iter().for_each(|op| story.step(op));
        // Nothing is left under a key when nobody has the lock, unless a step came late.
        let came_late = ops.iter().any(|op| matches!(op, Op::Late(_)));
        for _ in 0..6 {
            story.bench.settle();
            story.step(&Op::Pass(4_000));
        }
        story.bench.settle();
        story.bench.give();
        let lock = story.bench.lead.locks.find(&name(), 0).map(|slot| &slot.lock);
        let is_free = lock.is_none_or(|lock| lock.lease().is_none() && lock.offered_until().is_none());
        if is_free && !came_late {
            assert_eq!(story.bench.key(), None, "{ops:?}");
        }
        let mut seen = seen.borrow_mut();
        *seen = [seen[0] + story.granted.min(1), seen[1] + story.classic.min(1)];
    });
    let [granted, classic] = *seen.borrow();
    assert!(granted > 100 && classic > 100, "{granted} with a lease, {classic} with a classic client");
}
