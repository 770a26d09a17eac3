--! flags:
-- Grants the lock, or queues the request, or refuses it. Run again (a repeat of the same request) it answers what the request came to.
-- Takes: lock name, wait (1 or 0), TTL, min_token, for how long the key of the lease is to be kept in ms, the lease as it is to be (lib/layout.lua)
-- Reply: granted, contended, queued, timed_out, overtaken, ended, other_terms, min_token_too_high, queue_full, too_late, left_behind, exhausted
local lock_name, wait, ttl, floor, _, wished = ...
local request, fingerprint, lease, grant_id, _, attachment, _, attempt, _, holder, metadata, id = struct.unpack(LEASE, wished)
local candidate, wish = { lease, grant_id, attachment ~= NONE and attachment or '' }, { attempt = attempt, calls = id, replica = me,
  standing = 'I', fingerprint = fingerprint, ttl = ttl, floor = floor, holder = holder, metadata = metadata }
open(lock_name)
if not_after < now then return answer('too_late') end
if left_behind() then return answer('left_behind') end
settle()
if is_marked(request, attempt, id) then return answer('overtaken') end
local past = past_of(request)
if past and past[2] ~= 'F' then
  if past[3] ~= wish.fingerprint then return answer('other_terms') end
  return past[2] == 'T' and contention('timed_out') or answer('ended')
end
if past and attempt < past[5] then return answer('overtaken') end
if L.rq == request then return acquire_held(request, wish) end
local w = waiter_of(request)
if w then return acquire_queued(request, w, wish, wait == 1, candidate) end
local floor_max = math.min(now + DAY, TOKEN_END - 1)
if wish.floor > floor_max then return answer('min_token_too_high', floor_max) end
if not (L.li or L.oq or classic) then return grant(request, wish, candidate) end
if wait == 0 then
  -- An attempt before it may come yet: granted, it would hold the lock with nobody to hear of it.
  if attempt > 1 then remember(request, wish.fingerprint, 'F', now, nil, attempt) end
  return contention('contended')
end
if waiters() >= waiters_max then return answer('queue_full') end
if not L.np then guard(K.waiters, 'hash'); guard(K.dropped, 'zset'); guard(K.replicas, 'hash') end
guard(line(me), 'zset'); guard(missed(me), 'zset')
wish.place = L.np or 0
put('np', wish.place + 1)
file(request, wish)
hear_of_me()
return queued(wish)
