//! The checks. Each is a function of a cell, or of all languages, that panics if the client does not do what it should.

mod exits;
mod expiring;
mod faults;
mod leases;
mod modes;
mod queue;
mod redis_paused;
mod replies;
mod secured;
mod sets;
mod shown;
mod together;

use crate::{
    language::Language,
    report::Outcomes,
    world::{Cell, Store, World},
};
use std::{future::Future, pin::Pin, sync::Arc};

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) stores: &'static [Store],
    pub(crate) run: Run,
}

pub(crate) enum Run {
    /// Each language by itself, at the same time.
    Each(fn(Cell) -> Running<()>),
    /// All languages with each other.
    All(fn(Arc<World>, Vec<Language>) -> Running<Outcomes>),
}

const BOTH: &[Store] = &[Store::Memory, Store::Redis];
const MEMORY: &[Store] = &[Store::Memory];
const REDIS: &[Store] = &[Store::Redis];

/// A check of each language.
macro_rules! each {
    ($name:literal, $stores:ident, $check:path) => {
        Check { name: $name, stores: $stores, run: Run::Each(|cell| Box::pin($check(cell))) }
    };
}

/// A check of all languages with each other.
macro_rules! all {
    ($name:literal, $stores:ident, $check:path) => {
        Check { name: $name, stores: $stores, run: Run::All(|world, languages| Box::pin($check(world, languages))) }
    };
}

pub(crate) const CHECKS: &[Check] = &[
    each!("reads", BOTH, leases::reads),
    each!("kept past its TTL", BOTH, leases::kept),
    each!("held for its max_hold", BOTH, leases::bounded),
    each!("kept by its min_hold", BOTH, leases::unavailable),
    all!("one counter", BOTH, together::counter),
    all!("paused past its TTL", BOTH, together::pairs),
    all!("readers and a writer", BOTH, together::readers),
    all!("a semaphore of two", BOTH, together::semaphores),
    each!("lost reply of acquire", BOTH, replies::acquire),
    each!("lost reply of release", BOTH, replies::release),
    each!("late grant", BOTH, replies::late),
    each!("grant after its end", BOTH, replies::too_late),
    each!("silence, another server", BOTH, faults::silence),
    each!("silence, no other server", BOTH, faults::silence_alone),
    each!("server replaced", MEMORY, faults::replaced),
    each!("server killed", REDIS, faults::killed),
    each!("server drains, alone", MEMORY, faults::drained_alone),
    each!("server drains", REDIS, faults::drained),
    each!("redis paused", REDIS, redis_paused::paused),
    each!("contended and timed out", BOTH, queue::refused),
    each!("64 waiters in order", BOTH, queue::in_order),
    each!("granted after a wait", BOTH, queue::after_a_wait),
    each!("cancelled while waiting", BOTH, queue::cancelled),
    each!("cancelled as granted", BOTH, queue::cancelled_as_granted),
    each!("sets in order of bytes", BOTH, sets::in_order_of_bytes),
    each!("sets given back", BOTH, sets::given_back),
    all!("sets of all languages", BOTH, sets::contest),
    each!("sets with shared locks", BOTH, sets::with_shared),
    each!("converted", BOTH, modes::converted),
    each!("described and observed", BOTH, shown::described),
    each!("observed over a restart", MEMORY, shown::over_a_restart),
    each!("wanted", BOTH, shown::wanted),
    each!("1,000 locks", BOTH, leases::thousand),
    each!("TLS and token", BOTH, secured::connections),
    all!("tokens of 5 s", MEMORY, expiring::tokens),
    each!("exit without close", BOTH, exits::without_close),
    each!("closed", BOTH, exits::closed),
];
