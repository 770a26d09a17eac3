//! Mutants in the stores, and in what waits at a server.

use super::at_marks;
use crate::{
    edit::Edit::{Argument, Condition, Drop, Move, Operand, Statement, Value},
    mutant::{
        Change,
        Killer::{Crowd, Gaps, HandOver, Replicas, Schedules},
        Mutant,
    },
};

at_marks! {
    "handed over for longer than it is", "the caller reckons with time that passed before it asked",
        Argument("Timed { sent: tokio::time::Instant::now(), ..$ }"), [HandOver];
    "handed over to nobody", "a call has the lock, and waits until a poll tells it", Condition("false"), [HandOver];
    "cleanup after what was never sent", "a call that is dropped in line takes away another call of the same attempt",
        Operand("($ || true)"), [Crowd];
    "stands in line for ever", "a call waits for longer than it says, behind all others", Condition("false"), [Crowd];
    "all at once", "a hundred thousand acquires are all answered too late, and each retry makes it worse",
        Value("usize::MAX"), [Crowd];
    "sent for nobody", "a call that was dropped in line takes the lock all the same",
        Value("self.lines[lane as usize].waiting.contains_key(&number)"), [Crowd];
    "no end of standing in line", "a caller is kept waiting for what it could ask of another server",
        Condition("false"), [Crowd];
    "release forgotten", "a client gives its lock back and goes, and nobody gets it until it expires",
        Condition("false"), [Crowd];
    "grant forgotten", "a call is gone before it hears that it has the lock, which is held for nobody",
        Condition("false"), [Crowd];
    "claims behind a crowd", "offers lapse, because those who come go first", Move, [Crowd];
    "gap in events untold", "who watches does not learn that Redis was not asked any more to tell it",
        Condition("false"), [Gaps];
    "each watcher asks all buckets", "many that come at once keep Redis from all else", Drop, [Gaps];
    "gap told at each try", "a server that may not listen has everybody ask for everything, again and again",
        Condition("$ || !order.queue.is_closed()"), [Gaps];
    "lost word of an end", "a holder learns of its loss when the lease is next due, in eight hours",
        Condition("$ && self.leases.is_empty()"), [Gaps];
    "clock read before the lock", "within a shard, time goes back", Move, [Schedules];
    "waits after it asked", "a hint that comes before the call is entered is lost", Move, [Schedules];
    "lease ids that do not go by their request", "a late duplicate locks again, if another request has ended since",
        Value("LeaseId(Uuid::new_v4())"), [Replicas];
    "dropped call not cleaned up", "a call that is gone holds up those behind it", Condition("false"), [Schedules];
    "stream woken too early", "a stream looks for a notice before it is there, and never again", Move, [Schedules];
    "alarm does not look again", "a lease that is due earlier is not noticed as the expiry task goes to sleep",
        Value("announced"), [Schedules];
    "alarm sleeps longer than announced", "a timer that is cleared away puts the expiry task to sleep for good",
        Argument("u64::MAX"), [Schedules];
    "refused call is counted", "the drain waits for a call that was refused",
        Statement("if self.count.fetch_add(1, Ordering::Relaxed) >= max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }"),
        [Schedules];
    "bound checked, then counted", "more wait than may",
        Statement("room(self.count.load(Ordering::Relaxed))?; self.count.fetch_add(1, Ordering::Relaxed);"),
        [Schedules];
    "drain told before the call is counted out", "the drain waits for nobody", Move, [Schedules];
}
