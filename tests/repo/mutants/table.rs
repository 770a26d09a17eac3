//! The mutants: one small mistake each, and the tests that have to find it.

use super::mutant::{
    Killer::{Crowd, Gaps, HandOver, Model, Properties, Protocol, Replicas, Schedules, Scripts, Stores, Units},
    Mutant,
};

mutants! {
in "src/domain/rules/acquire.rs":
    "late script", "a command acts after its caller gave up (TimeLock: atlasdb PR 4933, phantom clients)",
    "    pub fn acquire(&mut self, command: Acquire) -> AcquireOutcome {\n        if self.not_after < self.now {"
    => "    pub fn acquire(&mut self, command: Acquire) -> AcquireOutcome {\n        if false {", [Units, Model];
    "left-behind store", "a server grants through a life of the store that is over",
    "        if self.sequencer.check(self.incarnation, self.present).is_err() {\n            return AcquireOutcome::LeftBehind;\n        }\n        self.settle();\n        let Acquire"
    => "        self.settle();\n        let Acquire", [Units];
    "mark ignored", "a clean-up that overtook its own acquire has no effect: a lease with nobody to hear of it",
    "        if self.is_marked(call) {\n            return AcquireOutcome::Overtaken;\n        }\n        if let Some(outcome) = self.acquire_ended"
    => "        if let Some(outcome) = self.acquire_ended", [Units, Protocol];
    "ended request acquires again", "a late duplicate locks again (node-redlock PR 369)",
    "        if let Some(outcome) = self.acquire_ended(call, terms) {\n            return outcome;\n        }\n" => "", [Units, Protocol];
    "refused try comes later", "an older attempt gets the lock after the newer was refused",
    "(call.attempt < refused).then_some(" => "false.then_some(", [Units, Model];
    "other terms", "a request id is bound to nothing",
    "        if lease.terms.fingerprint != terms.fingerprint {" => "        if false {", [Units, Model];
    "replay answers the full TTL", "a repeat promises time that the lease does not have (node-redlock #169)",
    "        left: lease.left(now),\n        previous_end" => "        left: lease.terms.ttl,\n        previous_end", [Units, Protocol];
    "retry does not re-arm", "a lease cut short stays so for the retry that found it",
    "        lease.rearm(now);\n" => "", [Units, Model];
    "known_token ignored", "what the replica remembers does not heal a store that forgot",
    "terms.min_token.max(self.known_token.saturating_add(1))" => "terms.min_token", [Units];
    "new request overtakes the line", "a free lock on offer is given to whoever comes (grackle #1)",
    "if self.lock.lease.is_none() && self.lock.offer.is_none() && self.classic.is_none() {"
    => "if self.lock.lease.is_none() && self.classic.is_none() {\n            self.lock.offer = None;", [Units, Model];
    "grant beside a classic client", "the lock is given away while a classic client has it",
    " && self.classic.is_none() {\n            return self.grant" => " {\n            return self.grant", [Units];
    "queue without a bound", "waiters without end (dflockd: no error for a full queue)",
    "if self.lock.waiters(self.now) >= self.waiters_max {" => "if false {", [Units, Model];
    "enqueue is no heartbeat", "a new replica's waiters are deleted at once",
    ".push(call, self.replica, terms);\n        self.hear_of_replica();" => ".push(call, self.replica, terms);", [Units, Protocol];
in "src/domain/rules/waiting.rs":
    "late claim", "a claim acts after its caller gave up: a lease with nobody to hear of it",
    "        if self.not_after < self.now {" => "        if false {", [Units, Model];
    "no mark", "a clean-up overtakes its own acquire, which then queues for nobody",
    "        if may_come && self.now <= self.not_after {" => "        if false {", [Units, Protocol];
    "cancel frees a retried grant", "the clean-up of an old attempt takes the lease from the new one",
    "if unbound == Unbound::Last {\n                lease.cut_short" => "if true {\n                lease.cut_short", [Units, Model];
    "dropped waiter stays in line", "the lock is offered to a caller that is gone (Redisson #4595)",
    "if unbound == Some(Unbound::Last) {\n                self.set_standing(request, Standing::Dropped(self.now.after(DROP_GRACE)));" => "if unbound == Some(Unbound::Last) {", [Units, Model];
    "drop keeps its offer", "the next waiter waits for a claim that cannot come",
    "                self.decline(request);\n" => "", [Units, Model];
    "dropped claim comes back", "a claim on its way revives a call that was dropped",
    "attempt < binding.attempt() || !binding.is_bound()" => "attempt < binding.attempt()", [Units, Protocol];
    "poll forgets those who missed", "a waiter that let one offer lapse is never served again (Redisson #3004)",
    "            self.set_standing(request, Standing::InLine);\n        }\n        self.promote();\n        let queue"
    => "            self.set_standing(request, Standing::InLine);\n            break;\n        }\n        let queue", [Units, Protocol];
    "poll is no heartbeat", "waiters of a living replica are skipped",
    "        self.hear_of_replica();\n        self.settle();" => "        self.settle();", [Units, Protocol];
    "release claims too late", "a command acts after its caller gave up",
    "if self.not_after < self.now\n            || self.sequencer" => "if self.sequencer", [Units];
    "release claims in another life", "a store that forgot grants an old token again",
    "            || self.sequencer.check(self.incarnation, self.present).is_err()\n            || !self.is_offered" => "            || !self.is_offered", [Units];
    "release claims for an overtaken call", "a lease that nobody hears of",
    "binding.replica() == self.replica && unbound(binding, attempt).is_none();" => "binding.replica() == self.replica;", [Units];
    "release claims for another server's call", "its own server is not told",
    "binding.replica() == self.replica && unbound(binding, attempt).is_none();" => "unbound(binding, attempt).is_none();", [Units];
    "release claims and hints", "the call is told of the offer that became its lease",
    "        self.effects.pop();\n" => "", [Units];
in "src/domain/rules/settle.rs":
    "lease never expires", "a dead holder keeps the lock for ever (redis-py #818)",
    "filter(|at| *at <= self.now);" => "filter(|_| false);", [Units, Protocol];
    "offer counts as expiry", "a lapsed offer is told as the end of a lease",
    "            self.lock.offer = None;\n            self.set_standing(offer.request, Standing::Missed);"
    => "            self.lock.offer = None;\n            self.lock.last = self.lock.last.map(|last| LastLease { end: LeaseEnd::Expired, ..last });\n            self.set_standing(offer.request, Standing::Missed);", [Units, Properties];
    "lapsed offer stands first again", "a dead waiter at the head holds everybody up (Redisson #6150)",
    "Standing::Missed);\n        }\n        self.make_way" => "Standing::InLine);\n        }\n        self.make_way", [Units, Protocol];
    "lease beside a classic client", "two hold the lock: a lease, and a client that took its key",
    "        self.end_lease(LeaseEnd::Revoked, self.now);\n        if let Some(offer)" => "        if let Some(offer)", [Units];
    "offer beside a classic client", "an offer is claimed although a classic client was faster",
    "        if let Some(offer) = self.lock.offer.take() {\n            self.set_standing(offer.request, Standing::InLine);\n        }\n" => "", [Units];
    "promotion ignores silence", "the lock is offered to waiters of a dead replica",
    "let alive = |replica| self.replicas.is_alive(replica, self.now);" => "let alive = |_| true;", [Units, Protocol];
    "time brings no hand-off", "expiry wakes nobody (Redisson #3730)",
    "        self.forget();\n        self.promote();" => "        self.forget();", [Units, Model];
    "deleted waiters wait for ever", "a replica that comes back is not told that its waiters are gone",
    "            self.effects.push(Effect::ReplicaReturned);" => "", [Units, Protocol];
    "gone replicas keep their waiters", "the queue fills with the dead",
    "        self.delete_gone();\n        self.forget" => "        self.forget", [Units];
    "ended requests forgotten at once", "a late duplicate locks again (bluetape4k #1068)",
    "        self.lock.ended.forget(self.now, SETTLE_BATCH);" => "        self.lock.ended = Default::default();", [Units, Protocol];
    "hand-off tells nobody", "no hint is sent (Redisson #1763)",
    "        self.effects.push(Effect::LookAgain { replica, request, attempt });"
    => "        let _ = (replica, attempt);", [Units, Model];
in "src/domain/rules/holding.rs":
    "release without the lease id", "anybody can release (etcd Unlock; redis-py PR 1095)",
    "        if self.held(lease_id).is_none() {\n            return ReleaseOutcome" => "        if self.lock.lease.is_none() {\n            return ReleaseOutcome", [Units, Model];
    "release hands nothing over", "the next waiter is found by a poll only",
    "        self.end_lease(LeaseEnd::Released, self.now);\n        self.promote();" => "        self.end_lease(LeaseEnd::Released, self.now);", [Units, Model];
    "renewal by a lost attachment", "an old stream keeps a lease that was attached elsewhere",
    "attachment.is_some() && attachment != lease.attachment" => "false", [Units, Model];
    "older attachment wins", "an attachment that turns up late takes the lease back",
    "        if attempt < lease.attachment_attempt {" => "        if false {", [Units, Model];
    "detach of a stale attachment", "the end of an old stream detaches the new one",
    "take_if(|current| *current == attachment)" => "take_if(|_| true)", [Units, Model];
    "disconnect of a stale attachment", "the end of an old stream revokes a lease that a new one keeps",
    "is_some_and(|lease| lease.attachment == Some(attachment))" => "is_some_and(|_| true)", [Units, Model];
    "force release of any token", "an operator hits the wrong holder",
    "        if lease.token != expected {" => "        if false {", [Units, Model];
in "src/domain/lease.rs":
    "renewal shortens", "a contender's or renewer's TTL cuts the lease (Kubernetes PR 114872)",
    "        if expires_at >= self.expires_at {" => "        if true {", [Units, Model];
    "drop cuts a renewed lease", "a holder that reckons with its renewal loses the lock",
    "        if !self.heard {" => "        if true {", [Units, Model];
in "src/domain/binding.rs":
    "overtaken attempt re-binds", "an old transmission takes the request back",
    "std::cmp::Ordering::Less => Bound::Overtaken," => "std::cmp::Ordering::Less => { *self = Self::first(call, replica); Bound::Yes }", [Units, Model];
    "older attempt unbinds", "the cleanup of an old attempt takes the new one's call away",
    "if call.attempt != self.attempt || !self.calls.remove(call.id) {" => "if !self.calls.remove(call.id) {", [Units, Model];
    "cleanup of a call that was never bound", "a lease that its holder has heard of is cut short, and a second holder gets in",
    "if call.attempt != self.attempt || !self.calls.remove(call.id) {" => "if call.attempt != self.attempt || (!self.calls.remove(call.id) && self.calls.0.pop().is_none()) {", [Units, Model, Protocol];
    "calls beyond the bound forgotten", "the cleanup of the last call that is remembered cuts the lease of another",
    "            self.0.push(Self::MANY);\n" => "", [Units];
in "src/domain/token.rs":
    "token equal instead of greater", "two grants in one moment have one token",
    "(self.counter.saturating_add(1)).max(floor)" => "self.counter.max(floor)", [Units];
    "no skip", "a store that forgot grants an old token again (Kleppmann; Redisson #775)",
    "now.after(TOKEN_SKIP).as_micros()" => "now.as_micros()", [Units, Protocol];
    "no second when ahead", "a new life with its counter ahead of the clock repeats what the old one lost",
    ".max(self.counter.saturating_add(micros(Duration::from_secs(1))))" => "", [Units];
    "min_token relative", "each request with a floor raises the next one's bound",
    "        now.after(MIN_TOKEN_AHEAD_MAX).as_micros().min" => "        (now.as_micros() * 2).min", [Units];
in "src/domain/ended/mod.rs":
    "memory is short", "a duplicate that comes in time is not known",
    "        self.at.after(ENDED_MEMORY)" => "        self.at.after(ENDED_MEMORY / 4)", [Units, Model];
in "src/domain/replicas.rs":
    "silent for ever", "a replica that is gone is not known as gone",
    "silent >= REPLICA_GONE)" => "silent > REPLICA_GONE * 10)", [Units];
in "src/store/redis/lua/release.lua":
    "script: release without the lease id", "anybody can release",
    "if L.li ~= lease then" => "if not L.li then", [Scripts];
    "script: release claims too late", "a command acts after its caller gave up",
    " or not_after < now or left_behind() then" => " or left_behind() then", [Scripts];
    "script: release claims in another life", "a Redis that forgot grants an old token again",
    " or not_after < now or left_behind() then" => " or not_after < now then", [Scripts];
    "script: release claims for an overtaken call", "a lease that nobody hears of",
    " or unbound(w, attempt) or" => " or", [Scripts];
    "script: release claims for another server's call", "its own server is not told",
    " or w.replica ~= me or" => " or", [Scripts];
    "script: release claims and hints", "the call is told of the offer that became its lease",
    "effects[#effects] = nil\n" => "", [Scripts];
in "src/store/redis/hand_over.rs":
    "handed over for longer than it is", "the caller reckons with time that passed before it asked",
    "Some(claimed)" => "Some(Timed { sent: tokio::time::Instant::now(), ..claimed })", [HandOver];
    "handed over to nobody", "a call has the lock, and waits until a poll tells it",
    "if self.is {" => "if false {", [HandOver];
in "src/store/redis/links/batch.rs":
    "clean-up after what was never sent", "a call that is dropped in line takes away another call of the same attempt",
    "if !self.over && !self.lines.lock().withdraw(self.lane, self.number) {" => "if !self.over && (!self.lines.lock().withdraw(self.lane, self.number) || true) {", [Crowd];
    "stands in line for ever", "a call waits for longer than it says, behind all others",
    "() = stop, if !*stopped => {" => "() = stop, if false => {", [Crowd];
in "src/store/redis/links/lane.rs":
    "all at once", "a hundred thousand acquires are all answered too late, and each retry makes it worse",
    "Lane::Progress | Lane::Entry | Lane::Bulk => UNDER_WAY_MAX," => "Lane::Progress | Lane::Entry | Lane::Bulk => usize::MAX,", [Crowd];
    "sent for nobody", "a call that was dropped in line takes the lock all the same",
    ".waiting.remove(&number).is_some()" => ".waiting.contains_key(&number)", [Crowd];
    "no end of standing in line", "a caller is kept waiting for what it could ask of another server",
    "now.saturating_duration_since(since) > IN_LINE_MAX" => "now < since", [Crowd];
in "src/store/redis/store.rs":
    "release forgotten", "a client gives its lock back and goes, and nobody gets it until it expires",
    "if !self.over {\n            self.store.chores.release" => "if false {\n            self.store.chores.release", [Crowd];
    "grant forgotten", "a call is gone before it hears that it has the lock, which is held for nobody",
    "if self.asker.unheard {" => "if false {", [Crowd];
in "src/store/redis/call.rs":
    "claims behind a crowd", "offers lapse, because those who come go first",
    "        claim = CLAIM,\n        give_up = GIVE_UP,\n        release = RELEASE,\n        renew = RENEW,\n        force_release = FORCE_RELEASE,\n    }\n    Entry: {\n"
    => "        give_up = GIVE_UP,\n        release = RELEASE,\n        renew = RENEW,\n        force_release = FORCE_RELEASE,\n    }\n    Entry: {\n        claim = CLAIM,\n", [Crowd];
in "src/store/redis/lua/acquire.lua":
    "script: late acquire", "a command acts after its caller gave up",
    "if not_after < now then" => "if false then", [Scripts];
in "src/store/redis/lua/drop_call.lua":
    "script: no mark", "a clean-up overtakes its own acquire",
    "if may_come and now <= not_after then leave_mark(request, attempt, id) end" => "", [Scripts];
in "src/store/redis/lua/decline.lua":
    "script: declined for all", "a replica that has no call left takes away the call that another has",
    "  w.standing, w.till = 'D', now + GRACE\n" => "  w.calls = w.calls:sub(9)\n  w.standing, w.till = 'D', now + GRACE\n", [Scripts];
    "script: declined by a stranger", "a late hint takes back an offer that was made to another replica",
    " and w.replica == me and" => " and", [Scripts];
in "src/store/redis/lua/lib/look_up.lua":
    "script: mark cut short", "of two clean-ups of one attempt the earlier one's command acts",
    "'ZADD', K.marks, 'GT', text" => "'ZADD', K.marks, text", [Scripts];
in "src/store/redis/lua/lib/effects.lua":
    "script: a refused message stops half way", "a release is remembered, and the lock stays held",
    "redis.pcall('PUBLISH'" => "redis.call('PUBLISH'", [Gaps];
in "src/store/redis/watching.rs":
    "gap in events untold", "who watches does not learn that Redis was not asked any more to tell it",
    "if outcome.is_ok() && std::mem::take(&mut last.is_forgotten) {" => "if false {", [Gaps];
    "each watcher asks all buckets", "many that come at once keep Redis from all else",
    "&& when.elapsed() < if outcome.is_ok() { PERIOD } else { FAILURE_SHARED }" => "&& when.elapsed() < FAILURE_SHARED / 1_000_000", [Gaps];
in "src/store/redis/links/pushes.rs":
    "gap told at each try", "a server that may not listen has everybody ask for everything, again and again",
    "if has_begun {" => "if has_begun || !order.queue.is_closed() {", [Gaps];
in "src/locks/keepalive/keeping.rs":
    "lost word of an end", "a holder learns of its loss when the lease is next due, in eight hours",
    "if self.inbox.take_lack() {" => "if self.inbox.take_lack() && self.leases.is_empty() {", [Gaps];
in "src/store/redis/lua/lib/token.lua":
    "script: grants through a life that was left", "two lives draw in turn: a token is granted twice",
    " and not is_in(incarnation) end" => " and false end", [Scripts];
    "script: token equal instead of greater", "two grants in one moment have one token",
    "math.max(before + 1, low)" => "math.max(before, low)", [Scripts];
    "script: known_token ignored", "what the replica remembers does not heal a Redis that forgot",
    "math.max(floor, known_token + 1, now)" => "math.max(floor, now)", [Scripts];
in "src/store/redis/lua/lib/promote.lua":
    "script: promotion ignores silence", "the lock is offered to waiters of a dead replica",
    "is_alive(replica) and redis" => "true and redis", [Scripts];
in "src/store/redis/lua/lib/grant.lua":
    "script: renewal shortens", "a renewal cuts the lease",
    "if now + ttl >= L.ex then" => "if true then", [Scripts];
in "src/store/redis/lua/lib/bind.lua":
    "script: overtaken attempt re-binds", "an old transmission takes the request back",
    "  if attempt < it.attempt then return false end\n" => "", [Scripts];
    "script: cleanup of a call that was never bound", "a lease that its holder has heard of is cut short, and a second holder gets in",
    "and id ~= MANY and place_of(it.calls, id)" => "and id ~= MANY and (place_of(it.calls, id) or 1)", [Scripts];
    "script: calls beyond the bound forgotten", "the cleanup of the last call that is remembered cuts the lease of another",
    "and it.calls or MANY)" => "and it.calls or '')", [Scripts];
in "src/store/redis/lua/detach.lua":
    "script: detach of a stale attachment", "the end of an old stream detaches the new one",
    "L.li == lease and L.am == attachment" => "L.li == lease", [Scripts];
in "src/store/redis/lua/lib/head.lua":
    "script: ends without a lease have one place", "a late duplicate of a call that ran out of time waits again",
    "  if tag == NO_TAG then tag = tag_of(past:sub(1, 16)) end\n" => "", [Scripts];
in "src/store/redis/lua/lib/memory.lua":
    "script: ended requests forgotten at once", "a late duplicate locks again",
    "if L.zq == request and now < L.za + MEMORY then" => "if false then", [Scripts];
    "script: ends put aside are forgotten at once", "a late duplicate locks again, if another request has ended since",
    "if at > (L.gf or 0) and now < at + MEMORY then return" => "if false then return", [Scripts];
    "script: the lease of an end put aside goes unread", "who made up a lease id is told how another lease ended",
    "found and found[4] == lease and found[2]" => "found and found[2]", [Scripts];
    "script: ends put aside are not found by their leases", "a repeated release is not told that it was done",
    "find_ended(lease:sub(1, 8))" => "nil", [Scripts];
in "src/store/redis/lua/lib/ended.lua":
    "script: what was forgotten comes back", "a clock that steps back brings ends back to mind",
    "if at <= (L.gf or 0) then" => "if false then", [Scripts];
in "src/store/redis/lua/lib/classic.lua":
    "script: classic key not told of a renewal", "a classic client gets the lock while the lease goes on",
    "if not value or (ours == value and not changed.ex and not changed.ou) then return end" => "if not value or ours == value then return end", [Scripts];
    "script: classic key left behind", "a lock that was given back stays held for classic clients",
    "  if ours and not value then redis.call('DEL', key) end\n" => "", [Scripts];
    "script: classic key of an offer", "a classic client overtakes the line",
    "or L.oq and OFFERED, L.ex or L.ou" => ", L.ex or L.ou", [Scripts];
in "src/store/redis/lua/quick/plain.lua":
    "script: quick path after the end", "an ended lease is revived",
    "if ex <= now or ex > now + period then return false end" => "if ex > now + period then return false end", [Scripts];
    "script: quick path heals nothing", "a clock that stepped back keeps a lease for longer than its TTL",
    "if ex <= now or ex > now + period then return false end" => "if ex <= now then return false end", [Scripts];
    "script: quick path heals no memory", "a clock that stepped back keeps ends in mind for longer than their time",
    "if la > now or za > now or now <= gf then return false end" => "", [Scripts];
    "script: quick path forgets the end", "the next holder is told of no previous one",
    "if la ~= -1 and now >= la + MEMORY then" => "if la ~= -1 then", [Scripts];
    "script: quick path forgets too late", "the next holder is told of one long gone",
    "if la ~= -1 and now >= la + MEMORY then" => "if false then", [Scripts];
in "src/store/redis/lua/quick/acquire.lua":
    "script: quick acquire too late", "a command acts after its caller gave up",
    "if not_after < now or floor" => "if floor", [Scripts];
    "script: quick acquire above the bound", "one client uses up the tokens",
    "floor > now + DAY or floor >= TOKEN_END or " => "", [Stores];
    "script: quick acquire of a known request", "a repeat is refused by its own lease",
    "held == request or (redis" => "(redis", [Scripts];
    "script: quick acquire of an ended request", "a late duplicate locks again",
    "if past:sub(1, 16) == request then return nil end" => "", [Scripts];
    "script: quick acquire of a request that ended before", "a late duplicate locks again, if another request has ended since",
    "if gs ~= -1 and redis.call('HEXISTS', base .. 'e:' .. name, lease:sub(25, 32)) == 1 then return nil end" => "", [Scripts];
    "script: quick acquire of a request that ended long before", "a late duplicate locks again, if many requests have ended since",
    "if go ~= -1 and redis.call('HEXISTS', base .. 'o:' .. name, lease:sub(25, 32)) == 1 then return nil end" => "", [Scripts];
    "script: quick refusal of a repeat", "the attempt before it may get the lock with nobody to hear of it",
    " or struct.unpack('<I4', lease, ATTEMPT_AT) > 1 then" => " then", [Scripts];
    "script: quick refusal of a waiter", "a call that would wait does not",
    "if wait == 1 then return enqueue" => "if false then return enqueue", [Scripts];
    "script: quick refusal beside a line", "who is refused is told that nobody waits",
    "if is_queued() or struct" => "if struct", [Scripts];
    "script: quick refusal in another life", "a server goes by what a Redis said that forgot",
    "held == request or (redis.call('GET', base .. 'n') or ''):sub(9) ~= incarnation_id then" => "held == request then", [Scripts];
    "script: quick path past the line", "who comes gets the lock that others wait for",
    "  if is_queued() then return nil end\n" => "", [Scripts];
in "src/store/redis/lua/quick/token.lua":
    "script: quick token in another life", "a Redis that forgot grants an old token again",
    "before and before:sub(9) == incarnation_id and struct" => "before and struct", [Scripts];
    "script: quick token equal instead of greater", "two grants in one moment have one token",
    "struct.unpack('<d', before) + 1 or" => "struct.unpack('<d', before) or", [Scripts];
    "script: quick token ignores known_token", "what the replica remembers does not heal a Redis that forgot",
    "math.max(floor, known_token + 1, now)" => "math.max(floor, now)", [Scripts];
    "script: quick token leaves the counter of another life", "the skip over what was forgotten is left out",
    "if before then redis.call('SET', counter, before) else redis.call('DEL', counter) end" => "", [Scripts];
in "src/store/redis/lua/quick/queue.lua":
    "script: quick line past a mark", "a mark is forgotten, and a dropped call's command acts",
    "marks == -1 and " => "", [Scripts];
    "script: quick line past other replicas", "their waiters are overtaken, and forgotten",
    "in_line == me and " => "", [Scripts];
    "script: quick line past those dropped", "they are counted as waiters, and kept beyond their time",
    " and redis.call('EXISTS', base .. 'd:' .. name) == 0" => "", [Scripts];
in "src/store/redis/lua/quick/enqueue.lua":
    "script: quick place above the bound", "a lock has more waiters than it may",
    "count >= waiters_max or " => "", [Scripts];
    "script: quick place for one in line", "a repeat loses its place",
    "count > 0 and redis.call('HEXISTS', waiters, request) == 1" => "false", [Scripts];
    "script: quick place beside one gone", "a replica that is gone is never forgotten",
    "at > now or at <= now - GONE" => "at > now", [Scripts];
    "script: quick place heals nothing", "after a step back of the clock a replica that is gone passes for alive",
    "at > now or at <= now - GONE" => "at <= now - GONE", [Scripts];
    "script: quick place is nobody's heartbeat", "a replica that only queues is taken for silent",
    "  redis.call('HSET', replicas, me, text(now))\n" => "", [Scripts];
    "script: quick place given twice", "two waiters have one place",
    "queue_of(next_place + 1)" => "queue_of(next_place)", [Scripts];
in "src/store/redis/lua/quick/hand_over.lua":
    "script: quick hand-over too late", "a command acts after its caller gave up",
    "not_after < now or " => "", [Scripts];
    "script: quick hand-over at a silent replica", "its calls, which may be gone, are served before those of live ones",
    " or now - heard >= SILENT" => "", [Scripts];
    "script: quick hand-over to another than the next", "one in line is overtaken",
    "next ~= request or " => "", [Scripts];
    "script: quick hand-over forgets who missed an offer", "a live waiter waits for ever",
    " or not another and redis.call('EXISTS', base .. 'm:' .. hex(me) .. ':' .. name) == 1 then" => " then", [Scripts];
    "script: quick hand-over to an overtaken attempt", "a lease is granted to a call that nobody reads",
    "w[2] ~= attempt or " => "", [Scripts];
    "script: quick hand-over unattached", "a stream on another replica may take the lease",
    "is_kept and 1 or 0" => "0", [Scripts];
in "src/store/redis/lua/quick/end.lua":
    "script: quick release forgets the end before", "a late duplicate locks again, if another request has ended since",
    "    spill_end(young, za, past)\n" => "", [Scripts];
in "src/store/redis/lua/quick/release.lua":
    "script: quick release past those who watch", "they are not told of it",
    "gs + MEMORY or anybody_watches() then" => "gs + MEMORY then", [Stores];
    "script: quick release without the lease id", "anybody can release",
    "held:sub(25, 40) ~= lease or" => "", [Scripts];
    "script: quick release tells no other replica", "a stream on another replica is not told of its lease's end",
    "elseif attachment:sub(17) ~= me then return nil end" => "end", [Replicas];
in "src/store/redis/lua/quick/renew.lua":
    "script: quick renewal beside a line", "those who wait are forgotten",
    "not plain(found) or is_queued() or ex == -1" => "not plain(found) or ex == -1", [Scripts];
    "script: quick renewal of another's lease", "a stream renews a lease that is no longer its own",
    "held:sub(25, 40) ~= lease or attachment and" => "attachment and", [Scripts];
    "script: quick renewal by a lost attachment", "an old stream keeps a lease that was attached elsewhere",
    "or attachment and held:sub(73, 88) ~= attachment then" => "then", [Scripts];
    "script: quick renewal shortens", "a renewal cuts the lease",
    "if now + ttl >= ex then" => "if true then", [Scripts];
in "src/store/memory/mod.rs":
    "clock read before the lock", "within a shard, time goes back",
    "        let mut shard = self.shards[at].lock();\n        // Read under the lock: within a shard, time never goes back.\n        let now = self.clock.now();\n"
    => "        let now = self.clock.now();\n        let mut shard = self.shards[at].lock();\n", [Schedules];
in "src/locks/wait.rs":
    "waits after it asked", "a hint that comes before the call is entered is lost",
    "        let waiting = match wait_until {\n            Some(_) => {\n                let client = follower.as_ref().map(|follower| follower.client.clone());\n                let entered = self.hub.waiters.enter(call.request, call.attempt, client, max);\n                Some(entered.ok_or(LocksError::ServerFull { max })?)\n            }\n            None => None,\n        };\n        let mut told = false;\n        // One lease at most comes of a call, whichever command grants it.\n        let wanted = candidate(call.request, attachment);\n        let command = Acquire { call, terms, wait: wait_until.is_some(), candidate: wanted };\n        let stop = async {\n            // Without a wait its caller gives up by itself.\n            let Some(until) = wait_until else { return std::future::pending().await };\n            // Boxed, or each call that waits would be as large as what it needs until it does.\n            Box::pin(self.end_of_wait(follower.as_deref(), until)).await;\n        };\n        let Timed { mut sent, mut outcome } = match self.store.acquire(name, command, stop).await {\n            Err(StoreError::Overloaded) if self.is_draining() => return Err(LocksError::Draining),\n            answer => answer?,\n        };\n"
    => "        let mut told = false;\n        // One lease at most comes of a call, whichever command grants it.\n        let wanted = candidate(call.request, attachment);\n        let command = Acquire { call, terms, wait: wait_until.is_some(), candidate: wanted };\n        let stop = async {\n            // Without a wait its caller gives up by itself.\n            let Some(until) = wait_until else { return std::future::pending().await };\n            // Boxed, or each call that waits would be as large as what it needs until it does.\n            Box::pin(self.end_of_wait(follower.as_deref(), until)).await;\n        };\n        let Timed { mut sent, mut outcome } = match self.store.acquire(name, command, stop).await {\n            Err(StoreError::Overloaded) if self.is_draining() => return Err(LocksError::Draining),\n            answer => answer?,\n        };\n        let waiting = match wait_until {\n            Some(_) => {\n                let client = follower.as_ref().map(|follower| follower.client.clone());\n                let entered = self.hub.waiters.enter(call.request, call.attempt, client, max);\n                Some(entered.ok_or(LocksError::ServerFull { max })?)\n            }\n            None => None,\n        };\n", [Schedules];
    "lease ids that do not go by their request", "a late duplicate locks again, if another request has ended since",
    "LeaseId::of(request, Uuid::new_v4().as_u64_pair().1)" => "LeaseId(Uuid::new_v4())", [Replicas];
    "dropped call not cleaned up", "a call that is gone holds up those behind it",
    "        if self.armed {" => "        if false {", [Schedules];
in "src/locks/keepalive/inbox.rs":
    "stream woken too early", "a stream looks for a notice before it is there, and never again",
    "        self.notices.lock().push_back((attachment, notice));\n        self.more.notify_one();"
    => "        self.more.notify_one();\n        self.notices.lock().push_back((attachment, notice));", [Schedules];
in "src/store/memory/expiry.rs":
    "alarm does not look again", "a lease that is due earlier is not noticed as the expiry task goes to sleep",
    "self.earliest().min(announced)" => "announced", [Schedules];
    "alarm sleeps longer than announced", "a timer that is cleared away puts the expiry task to sleep for good",
    "self.earliest().min(announced)" => "self.earliest()", [Schedules];
in "src/locks/waiters.rs":
    "refused call is counted", "the drain waits for a call that was refused",
    "self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;"
    => "if self.count.fetch_add(1, Ordering::Relaxed) >= max {\n            self.count.fetch_sub(1, Ordering::Relaxed);\n            return None;\n        }\n        let _ = room;", [Schedules];
    "bound checked, then counted", "more wait than may",
    "self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;"
    => "room(self.count.load(Ordering::Relaxed))?;\n        self.count.fetch_add(1, Ordering::Relaxed);", [Schedules];
    "drain told before the call is counted out", "the drain waits for nobody",
    "        self.waiters.count.fetch_sub(1, Ordering::Relaxed);\n        self.waiters.left.notify_one();"
    => "        self.waiters.left.notify_one();\n        self.waiters.count.fetch_sub(1, Ordering::Relaxed);", [Schedules];
}
