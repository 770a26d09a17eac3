//! Mutants in the stores, and in the waiters of a server.

use super::at_marks;
use crate::{
    edit::Edit::{Argument, Closure, Condition, Drop, Move, Statement, Value},
    mutant::{
        Killer::{Gaps, Moves, Schedules, Units},
        Mutant,
    },
};

at_marks! {
    "lost word of an end", "a holder learns that it lost its lease only when the next renewal is due, in eight hours",
        Condition("$ && self.leases.is_empty()"), [Gaps];
    "clock read before the lock", "time goes back within a shard", Move, [Schedules];
    "waits after it asked", "a hint that arrives before the answer is lost",
        Statement("$ if let Some((waiting, _)) = &waiting {
            let _ = futures_util::FutureExt::now_or_never(Box::pin(waiting.woken()));
        }"),
        [Schedules];
    "dropped call not cleaned up", "a dropped call blocks the waiters behind it", Condition("false"), [Schedules];
    "stream woken too early", "a stream checks for a notice before it arrives, and never again", Move, [Schedules];
    "alarm does not look again", "the expiry task goes to sleep without noticing a lease that is due earlier",
        Value("announced"), [Schedules];
    "alarm sleeps longer than announced", "a removed timer puts the expiry task to sleep forever",
        Argument("u64::MAX"), [Schedules];
    "ends as of another batch", "a lease ends early whose old leader renewed it after the hand-over failed",
        Closure("true"), [Moves];
    "takeover forgets max_hold", "a holder that is stuck keeps its lock by each change of the leader",
        Value("time.after(lease.terms.ttl)"), [Moves];
    "new terms for an old server", "an old server takes a lock with a bound for one without",
        Value("Self::NONE"), [Moves];
    "delays for an old server", "an old server grants a lock within its delay", Value("Self::NONE"), [Moves];
    "shared leases for an old server", "an old server grants a lock beside readers", Value("Self::NONE"), [Moves];
    "semaphores for an old server", "an old server grants a semaphore to one holder", Value("Self::NONE"), [Moves];
    "Convert for an old server", "an old server drops the messages with it", Value("Self::NONE"), [Moves];
    "Describe for an old server", "an old server drops the messages with it", Value("Self::NONE"), [Moves];
    "max_waiters for an old server", "a request waits at an old server that was to be refused", Value("Self::NONE"),
        [Moves];
    "waiter is refused by the next leader", "a request that waits is CONTENDED when the leader changes", Drop,
        [Units];
    "ends not told", "a renewed lease ends early at the next leader", Argument("0"), [Moves];
    "refused call is counted", "the drain waits for a refused call",
        Statement("if self.count.fetch_add(1, Ordering::Relaxed) >= max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }"),
        [Schedules];
    "bound checked, then counted", "more calls wait than the limit allows",
        Statement("room(self.count.load(Ordering::Relaxed))?; self.count.fetch_add(1, Ordering::Relaxed);"),
        [Schedules];
    "drain told before the call is counted out", "the drain waits for a call that has left", Move, [Schedules];
}
