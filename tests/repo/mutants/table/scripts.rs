//! Mutants in the scripts. Each replaces a text that occurs once in its script.

use crate::mutant::{
    Change,
    Killer::{Gaps, Replicas, Scripts, Stores},
    Mutant,
};

macro_rules! of_text {
    ($(in $file:literal: $($name:literal, $breaks:literal, $from:literal => $to:literal, [$($killer:ident),+];)+)+) => {
        pub(super) const MUTANTS: &[Mutant] = &[$($(Mutant {
            name: $name,
            breaks: $breaks,
            change: Change::OfText { file: $file, from: $from, to: $to },
            killers: &[$($killer),+],
        },)+)+];
    };
}

of_text! {
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
in "src/store/redis/lua/acquire.lua":
    "script: late acquire", "a command acts after its caller gave up",
    "if not_after < now then" => "if false then", [Scripts];
in "src/store/redis/lua/drop_call.lua":
    "script: no mark", "a cleanup overtakes its own acquire",
    "if may_come and now <= not_after then leave_mark(request, attempt, id) end" => "", [Scripts];
in "src/store/redis/lua/decline.lua":
    "script: declined for all", "a replica that has no call left takes away the call that another has",
    "  w.standing, w.till = 'D', now + GRACE\n"
        => "  w.calls = w.calls:sub(9)\n  w.standing, w.till = 'D', now + GRACE\n", [Scripts];
    "script: declined by a stranger", "a late hint takes back an offer that was made to another replica",
    " and w.replica == me and" => " and", [Scripts];
in "src/store/redis/lua/lib/look_up.lua":
    "script: mark cut short", "of two cleanups of one attempt the earlier one's command acts",
    "'ZADD', K.marks, 'GT', text" => "'ZADD', K.marks, text", [Scripts];
in "src/store/redis/lua/lib/effects.lua":
    "script: a refused message stops half way", "a release is remembered, and the lock stays held",
    "redis.pcall('PUBLISH'" => "redis.call('PUBLISH'", [Gaps];
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
    "script: cleanup of a call that was never bound",
        "a lease that its holder has heard of is cut short, and a second holder gets in",
    "and id ~= MANY and place_of(it.calls, id)" => "and id ~= MANY and (place_of(it.calls, id) or 1)", [Scripts];
    "script: calls beyond the bound forgotten",
        "the cleanup of the last call that is remembered cuts the lease of another",
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
    "if not value or (ours == value and not changed.ex and not changed.ou) then return end"
        => "if not value or ours == value then return end", [Scripts];
    "script: classic key left behind", "a lock that was given back stays held for classic clients",
    "  if ours and not value then redis.call('DEL', key) end\n" => "", [Scripts];
    "script: classic key of an offer", "a classic client overtakes the line",
    "or L.oq and OFFERED, L.ex or L.ou" => ", L.ex or L.ou", [Scripts];
in "src/store/redis/lua/quick/plain.lua":
    "script: quick path after the end", "an ended lease is revived",
    "if ex <= now or ex > now + period then return false end"
        => "if ex > now + period then return false end", [Scripts];
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
    "script: quick acquire of a request that ended before",
        "a late duplicate locks again, if another request has ended since",
    "if gs ~= -1 and redis.call('HEXISTS', base .. 'e:' .. name, lease:sub(25, 32)) == 1 then return nil end"
        => "", [Scripts];
    "script: quick acquire of a request that ended long before",
        "a late duplicate locks again, if many requests have ended since",
    "if go ~= -1 and redis.call('HEXISTS', base .. 'o:' .. name, lease:sub(25, 32)) == 1 then return nil end"
        => "", [Scripts];
    "script: quick refusal of a repeat", "the attempt before it may get the lock with nobody to hear of it",
    " or struct.unpack('<I4', lease, ATTEMPT_AT) > 1 then" => " then", [Scripts];
    "script: quick refusal of a waiter", "a call that would wait does not",
    "if wait == 1 then return enqueue" => "if false then return enqueue", [Scripts];
    "script: quick refusal beside a line", "who is refused is told that nobody waits",
    "if is_queued() or struct" => "if struct", [Scripts];
    "script: quick refusal in another life", "a server goes by what a Redis said that forgot",
    "held == request or (redis.call('GET', base .. 'n') or ''):sub(9) ~= incarnation_id then"
        => "held == request then", [Scripts];
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
}
