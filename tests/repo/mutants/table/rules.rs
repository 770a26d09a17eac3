//! Mutants in the rules.

use super::at_marks;
use crate::{
    edit::Edit::{Argument, Closure, Condition, Drop, Operand, Statement, Value},
    mutant::{
        Change,
        Killer::{Model, Properties, Protocol, Units},
        Mutant,
    },
};

at_marks! {
    "late script", "a command acts after its caller gave up (TimeLock: atlasdb PR 4933, phantom clients)",
        Condition("false"), [Units, Model];
    "left-behind store", "a server grants through a life of the store that is over", Condition("false"), [Units];
    "mark ignored", "a cleanup that overtook its own acquire has no effect: a lease with nobody to hear of it",
        Condition("false"), [Units, Protocol];
    "ended request acquires again", "a late duplicate locks again (node-redlock PR 369)", Drop, [Units, Protocol];
    "refused try comes later", "an older attempt gets the lock after the newer was refused",
        Value("None"), [Units, Model];
    "other terms", "a request id is bound to nothing", Condition("false"), [Units, Model];
    "replay answers the full TTL", "a repeat promises time that the lease does not have (node-redlock #169)",
        Value("lease.terms.ttl"), [Units, Protocol];
    "retry does not re-arm", "a lease cut short stays so for the retry that found it", Drop, [Units, Model];
    "known_token ignored", "what the replica remembers does not heal a store that forgot", Argument("0"), [Units];
    "new request overtakes the line", "a free lock on offer is given to whoever comes (grackle #1)",
        Operand("{ self.lock.offer = None; true }"), [Units, Model];
    "grant beside a classic client", "the lock is given away while a classic client has it", Operand("true"), [Units];
    "queue without a bound", "waiters without end (dflockd: no error for a full queue)",
        Condition("false"), [Units, Model];
    "enqueue is no heartbeat", "a new replica's waiters are deleted at once", Drop, [Units, Protocol];
    "late claim", "a claim acts after its caller gave up: a lease with nobody to hear of it",
        Condition("false"), [Units, Model];
    "no mark", "a cleanup overtakes its own acquire, which then queues for nobody",
        Condition("false"), [Units, Protocol];
    "cancel frees a retried grant", "the cleanup of an old attempt takes the lease from the new one",
        Condition("true"), [Units, Model];
    "dropped waiter stays in line", "the lock is offered to a caller that is gone (Redisson #4595)",
        Drop, [Units, Model];
    "drop keeps its offer", "the next waiter waits for a claim that cannot come", Drop, [Units, Model];
    "dropped claim comes back", "a claim on its way revives a call that was dropped",
        Operand("false"), [Units, Protocol];
    "poll forgets those who missed", "a waiter that let one offer lapse is never served again (Redisson #3004)",
        Drop, [Units, Protocol];
    "poll is no heartbeat", "waiters of a living replica are skipped", Drop, [Units, Protocol];
    "release claims too late", "a command acts after its caller gave up", Operand("false"), [Units];
    "release claims in another life", "a store that forgot grants an old token again", Operand("false"), [Units];
    "release claims for an overtaken call", "a lease that nobody hears of", Operand("true"), [Units];
    "release claims for another server's call", "its own server is not told", Operand("true"), [Units];
    "release claims and hints", "the call is told of the offer that became its lease", Drop, [Units];
    "lease never expires", "a dead holder keeps the lock for ever (redis-py #818)", Value("None"), [Units, Protocol];
    "offer counts as expiry", "a lapsed offer is told as the end of a lease",
        Statement("$ self.lock.last = self.lock.last.map(|last| LastLease { end: LeaseEnd::Expired, ..last });"),
        [Units, Properties];
    "lapsed offer stands first again", "a dead waiter at the head holds everybody up (Redisson #6150)",
        Argument("WaiterState::InLine"), [Units, Protocol];
    "lease beside a classic client", "two hold the lock: a lease, and a client that took its key", Drop, [Units];
    "offer beside a classic client", "an offer is claimed although a classic client was faster", Drop, [Units];
    "promotion ignores silence", "the lock is offered to waiters of a dead replica", Closure("true"), [Units, Protocol];
    "time brings no hand-off", "expiry wakes nobody (Redisson #3730)", Drop, [Units, Model];
    "deleted waiters wait for ever", "a replica that comes back is not told that its waiters are gone",
        Drop, [Units, Protocol];
    "gone replicas keep their waiters", "the queue fills with the dead", Drop, [Units];
    "ended requests forgotten at once", "a late duplicate locks again (bluetape4k #1068)",
        Statement("self.lock.ended = Default::default();"), [Units, Protocol];
    "hand-off tells nobody", "no hint is sent (Redisson #1763)", Drop, [Units, Model];
    "release without the lease id", "anybody can release (etcd Unlock; redis-py PR 1095)",
        Condition("self.lock.lease.is_none()"), [Units, Model];
    "release hands nothing over", "the next waiter is found by a poll only", Drop, [Units, Model];
    "renewal by a lost attachment", "an old stream keeps a lease that was attached elsewhere",
        Condition("false"), [Units, Model];
    "older attachment wins", "an attachment that turns up late takes the lease back",
        Condition("false"), [Units, Model];
    "detach of a stale attachment", "the end of an old stream detaches the new one", Closure("true"), [Units, Model];
    "disconnect of a stale attachment", "the end of an old stream revokes a lease that a new one keeps",
        Closure("true"), [Units, Model];
    "force release of any token", "an operator hits the wrong holder", Condition("false"), [Units, Model];
    "renewal shortens", "a contender's or renewer's TTL cuts the lease (Kubernetes PR 114872)",
        Condition("true"), [Units, Model];
    "drop cuts a renewed lease", "a holder that reckons with its renewal loses the lock",
        Condition("true"), [Units, Model];
    "overtaken attempt re-binds", "an old transmission takes the request back",
        Value("{ *self = Self::first(call, replica); Bound::Yes }"), [Units, Model];
    "older attempt unbinds", "the cleanup of an old attempt takes the new one's call away",
        Operand("false"), [Units, Model];
    "cleanup of a call that was never bound",
        "a lease that its holder has heard of is cut short, and a second holder gets in",
        Operand("($ && self.calls.0.pop().is_none())"), [Units, Model, Protocol];
    "calls beyond the bound forgotten", "the cleanup of the last call that is remembered cuts the lease of another",
        Drop, [Units];
    "token equal instead of greater", "two grants in one moment have one token", Argument("0"), [Units];
    "no skip", "a store that forgot grants an old token again (Kleppmann; Redisson #775)",
        Argument("Duration::ZERO"), [Units, Protocol];
    "no second when ahead", "a new life with its counter ahead of the clock repeats what the old one lost",
        Value("0"), [Units];
    "min_token relative", "each request with a floor raises the next one's bound",
        Value("(now.as_micros() * 2).min(TOKEN_END - 1)"), [Units];
    "memory is short", "a duplicate that comes in time is not known", Argument("$ / 4"), [Units, Model];
    "silent for ever", "a replica that is gone is not known as gone", Closure("false"), [Units];
}
