//! Mutants in the rules.

use super::at_marks;
use crate::{
    edit::Edit::{Argument, Closure, Condition, Drop, Operand, Statement, Value},
    mutant::{
        Killer::{Model, Properties, Protocol, Units},
        Mutant,
    },
};

at_marks! {
    "mark ignored", "a cleanup that overtook its acquire has no effect: a lease without a holder",
        Condition("false"), [Units, Protocol];
    "ended request acquires again", "a late duplicate acquires again (node-redlock PR 369)", Drop, [Units, Protocol];
    "refused try comes later", "an older attempt gets the lock after the newer was refused",
        Value("None"), [Units, Model];
    "other terms", "a request id is bound to nothing", Condition("false"), [Units, Model];
    "replay answers the full TTL", "a repeat promises more time than the lease has (node-redlock #169)",
        Value("lease.terms.ttl"), [Units, Protocol];
    "retry does not re-arm", "a lease cut short stays short for the retry that gets it", Drop, [Units, Model];
    "new request overtakes the line", "a lock that is offered to a waiter is granted to a new request (grackle #1)",
        Operand("{ self.lock.offer = None; self.lock.has_room(&terms.mode) }"), [Units, Model];
    "grant beside a classic client", "the lock is granted while a classic client holds it", Operand("true"), [Units];
    "queue without a bound", "an unbounded number of waiters (dflockd: no error for a full queue)",
        Condition("false"), [Units, Model];
    "no mark", "a cleanup overtakes its acquire, which then queues without a caller",
        Condition("false"), [Units, Protocol];
    "cancel frees a retried grant", "the cleanup of an old attempt ends the lease of the new one",
        Condition("true"), [Units, Model];
    "dropped waiter stays in line", "the lock is offered to a dropped caller (Redisson #4595)",
        Drop, [Units, Model];
    "drop keeps its offer", "the next waiter waits for a claim that never comes", Drop, [Units, Model];
    "kept place revives an ended request", "a request that has ended holds a place in the queue",
        Condition("is_queued"), [Units];
    "kept place is offered the lock", "the lock is offered to a dropped caller after a change of the leader",
        Drop, [Units];
    "dropped claim comes back", "a claim in flight revives a dropped call",
        Operand("false"), [Units, Protocol];
    "claim forgets those who missed", "a waiter that let one offer lapse is never served again (Redisson #3004)",
        Condition("false"), [Units, Protocol];
    "release claims for who is not next", "a waiter overtakes the queue", Operand("false"), [Units];
    "release claims for an overtaken call", "a lease without a holder", Operand("false"), [Units];
    "release claims for another server's call", "the server of the call is not notified", Operand("false"), [Units];
    "release claims and hints", "the call is told of the offer that became its lease", Drop, [Units];
    "grant within a delay", "a job of 10 ms runs on two machines (ShedLock #8)", Operand("true"), [Units, Model];
    "offer to who has no room", "a waiter gets the lock within a delay, or beside readers", Condition("false"),
        [Units, Model];
    "writer beside readers", "a writer and readers hold the lock together", Operand("true"), [Units, Model];
    "reader overtakes writer", "a writer starves among readers (minio #2629)", Operand("true"), [Units, Model];
    "reader hides how the writer ended", "a writer does not hear that the one before died", Value("end"),
        [Units, Model];
    "reader hands nothing over", "a writer waits although the last reader has gone", Drop, [Units, Model];
    "reader never expires", "a dead reader keeps writers out for ever", Drop, [Units, Model];
    "overdue reader renews", "a lease is revived that others may have seen end", Condition("false"), [Units];
    "offers are not counted", "more permits are granted than there are",
        Value("self.used + u64::from(count) <= u64::from(self.limit.permits)"), [Units, Model];
    "permits above the limit", "more permits are granted than there are", Value("shares.semaphore.is_some()"),
        [Units, Model];
    "permits leak", "the permits of the dead are lost (hazelcast #16810)", Drop, [Units, Model];
    "slot of several permits", "a lease takes a slot that it has not", Value("Some(self.slots.take())"), [Units, Model];
    "reader beside a semaphore", "two programs use one name for different things, and nobody is told",
        Condition("false"), [Units, Model];
    "two limits of one version", "two programs disagree on the limit, and nobody is told (ldlm)", Condition("false"),
        [Units, Model];
    "older limit replaces a newer one", "the limit flaps while a program is replaced (madelson #80)",
        Condition("limit.version != asked.limit.version"), [Units, Model];
    "offer above a lowered limit", "an offer is claimed that there is no permit for", Drop, [Units];
    "raised limit wakes nobody", "waiters do not see a higher limit (CURATOR-75)", Drop, [Units, Model];
    "permits above the limit block the queue", "a request that can never be served holds up all others",
        Value("false"), [Units];
    "permit hands on what it was told", "an end is told for ever, from holder to holder", Value("lease.previous_end"),
        [Units, Model];
    "late copy converts again", "a late copy of an upgrade undoes the downgrade after it", Condition("false"),
        [Units, Model, Protocol];
    "late downgrade undoes an upgrade", "readers come in beside a writer that relies on being alone",
        Condition("is_so"), [Units, Model, Protocol];
    "repeated conversion is not heard of", "a lease ends before the time that its holder was told", Drop,
        [Units, Model];
    "downgrade lets no reader in", "a reader waits beside readers", Drop, [Units, Model];
    "upgrade beside a reader", "a writer and a reader hold the lock together", Condition("false"),
        [Units, Model, Protocol];
    "late description replaces a newer one", "others see what a holder said before", Condition("false"), [Units];
    "the dead count for max_waiters", "work is refused although nobody who waits for it lives", Value("0"), [Units];
    "waits beyond max_waiters", "work is queued that need not be done twice", Condition("!wait"), [Units];
    "upgrade keeps its token", "a store takes a writer for stale, because another reader's token is higher",
        Value("converted(lease, Mode::Exclusive, self.now)"), [Units, Model, Protocol];
    "ghost not counted", "a writer gets the lock within the delay of a reader",
        Value("shares.leases.is_empty() && shares.offers.is_empty()"), [Units, Model];
    "reader leaves no ghost", "a reader that is gone keeps nobody out", Drop, [Units, Model];
    "slot reused under a ghost", "two programs use one slot, within the delay of the first",
        Statement("semaphore.keep(&crate::domain::mode::Permits { slot: None, ..*permits });"), [Units, Model];
    "ghost lifted by a late release of min_hold", "a late release has a job run twice", Value("true"), [Units, Model];
    "ghost forgets how its lease ended", "the next holder is not told of unfinished work", Drop, [Units, Model];
    "force release leaves a ghost", "an operator cannot free a place from a delay", Drop, [Units, Model];
    "upgrade beside a ghost", "a reader becomes a writer within the delay of another",
        Closure("shares.leases.len() == 1 && shares.offers.is_empty()"), [Units, Model];
    "downgrade of a delay for an old server", "an old server leads a lease whose delay it cannot read",
        Value("Self::NONE"), [Units];
    "ghosts for an old server", "an old server ends a shared lease without its delay", Value("Self::NONE"), [Units];
    "delay never ends", "a lock is unavailable for ever", Drop, [Units, Model];
    "delay forgets how its lease ended", "the next holder is not told of unfinished work", Drop, [Units, Model];
    "release leaves a lock_delay", "a holder that has stopped has others wait", Value("at.after(delays.lock_delay)"),
        [Units, Model];
    "late release ends no lock_delay", "an old holder that came back has to wait (consul #430)", Drop, [Units, Model];
    "late release ends a min_hold", "a late release has a job run twice", Condition("true"), [Units, Model];
    "force release leaves a delay", "an operator cannot free a lock from a delay", Drop, [Units, Model];
    "lease never expires", "a dead holder keeps the lock forever (redis-py #818)", Value("None"), [Units, Protocol];
    "offer counts as expiry", "a lapsed offer is reported as the end of a lease",
        Statement("$ self.lock.last = self.lock.last.map(|last| LastLease { end: LeaseEnd::Expired, ..last });"),
        [Units, Properties];
    "lapsed offer stands first again", "a dead waiter at the head blocks the queue (Redisson #6150)",
        Argument("WaiterState::Waiting"), [Units, Protocol];
    "lease beside a classic client", "two holders: a lease, and a classic client that replaced its key", Drop, [Units];
    "offer beside a classic client", "an offer is claimed although a classic client was faster", Drop, [Units];
    "offer waits for the dead", "a waiter waits for the claim of one whose server is dead",
        Condition("false"), [Units];
    "claim does not move its request", "a live call waits for ever, because another call of it was at a dead server",
        Operand("false"), [Units];
    "promotion ignores silence", "the lock is offered to waiters of a dead replica", Closure("true"), [Units, Protocol];
    "time brings no hand-off", "expiry wakes no waiter (Redisson #3730)", Drop, [Units, Model];
    "gone replicas keep their waiters", "the queue fills with dead waiters", Drop, [Units];
    "missed for ever", "a request whose server was killed fills the queue while another server lives",
        Value("None::<()>"), [Units, Model];
    "ended requests forgotten at once", "a late duplicate acquires again (bluetape4k #1068)",
        Statement("self.lock.ended = Default::default();"), [Units, Protocol];
    "hand-off tells nobody", "no waiter is notified (Redisson #1763)", Drop, [Units, Model];
    "release without the lease id", "anybody can release (etcd Unlock; redis-py PR 1095)",
        Condition("self.lock.lease.is_none()"), [Units, Model];
    "release hands nothing over", "the next waiter gets the lock only with the next command", Drop, [Units, Model];
    "renewal by a lost attachment", "an old stream keeps a lease that was attached elsewhere",
        Condition("false"), [Units, Model];
    "older attachment wins", "a late attachment takes the lease back",
        Condition("false"), [Units, Model];
    "detach of a stale attachment", "the end of an old stream detaches the new one", Closure("true"), [Units, Model];
    "disconnect of a stale attachment", "the end of an old stream revokes a lease that a new one keeps",
        Closure("true"), [Units, Model];
    "force release of any token", "an operator hits the wrong holder", Condition("false"), [Units, Model];
    "renewal shortens", "a contender's or renewer's TTL cuts the lease (Kubernetes PR 114872)",
        Condition("true"), [Units, Model];
    "renewed beyond max_hold", "a stuck holder that renews keeps its lock for ever (Redisson #2254, RedLock.net #68)",
        Value("end"), [Units, Properties];
    "drop cuts a renewed lease", "a holder loses a lease that it has renewed",
        Condition("true"), [Units, Model];
    "overtaken attempt re-binds", "an old transmission takes the request over",
        Value("{ *self = Self::first(call, replica); Bound::Yes }"), [Units, Model];
    "older attempt unbinds", "the cleanup of an old attempt unbinds the call of the new one",
        Operand("false"), [Units, Model];
    "cleanup of a call that was never bound",
        "a lease that its holder knows is cut short, and a second holder gets the lock",
        Operand("($ && self.calls.0.pop().is_none())"), [Units, Model, Protocol];
    "calls beyond the bound forgotten", "the cleanup of the last remembered call cuts the lease of another",
        Drop, [Units];
    "token equal instead of greater", "two grants at one time have the same token", Argument("0"), [Units];
    "no skip", "a store that lost data grants an old token again (Kleppmann; Redisson #775)",
        Argument("std::time::Duration::ZERO"), [Units];
    "min_token relative", "each request with a min_token raises the bound for the next one",
        Value("(now.as_micros() * 2).min(TOKEN_END - 1)"), [Units];
    "memory is short", "a duplicate within the time of memory is unknown", Argument("$ / 4"), [Units, Model];
    "dead for ever", "waiters of a server that was wrongly found dead are never served", Drop, [Units, Protocol];
    "clocks are not waited for", "a clock that was ahead makes tokens fall after the next loss",
        Value("Duration::ZERO"), [Units];
    "tokens above the latest clock", "a clock that was ahead makes tokens fall after the next loss",
        Value("0"), [Units];
    "silent for ever", "a gone replica is never recognized as gone", Closure("false"), [Units];
}
