--! flags:
-- Grants the lock, or queues the request, or refuses it. Run again (a repeat of the same request) it answers what the request came to.
-- ARGV 7: lock name, request, attempt, wait (1 or 0), lease id, grant id, attachment, fingerprint, TTL, min_token, holder, metadata
-- Reply: granted, contended, queued, timed_out, overtaken, ended, other_terms, min_token_too_high, queue_full, too_late, left_behind, exhausted
local request, attempt, wait, candidate = ARGV[8], tonumber(ARGV[9]), ARGV[10] == '1', { ARGV[11], ARGV[12], ARGV[13] }
local wish = { attempt = attempt, calls = 1, replica = me, standing = 'I', fingerprint = ARGV[14], ttl = tonumber(ARGV[15]),
               floor = tonumber(ARGV[16]), holder = ARGV[17], metadata = ARGV[18] }
open(ARGV[7])
if not_after < now then return answer('too_late') end
if left_behind() then return answer('left_behind') end
settle()
if is_marked(request, attempt) then return answer('overtaken') end
local past = past_of(request)
if past and past[2] ~= 'F' then
  if past[1] ~= wish.fingerprint then return answer('other_terms') end
  return past[2] == 'T' and contention('timed_out') or answer('ended')
end
if past and attempt < past[5] then return answer('overtaken') end
if L.rq == request then return acquire_held(request, wish) end
local w = waiter_of(request)
if w then return acquire_queued(request, w, wish, wait, candidate) end
local floor_max = math.min(now + DAY, TOKEN_END - 1)
if wish.floor > floor_max then return answer('min_token_too_high', text(floor_max)) end
if not (L.li or L['or'] or classic) then return grant(request, wish, candidate) end
if not wait then
  -- An attempt before it may come yet: granted, it would hold the lock with nobody to hear of it.
  if attempt > 1 then remember(request, wish.fingerprint, 'F', now, nil, attempt) end
  return contention('contended')
end
if waiters() >= waiters_max then return answer('queue_full') end
guard(K.waiters, 'hash'); guard(K.dropped, 'zset'); guard(line(me), 'zset'); guard(missed(me), 'zset'); guard(K.replicas, 'hash')
wish.place = tonumber(L.np or 0)
put('np', text(wish.place + 1))
file(request, wish)
hear_of_me()
return queued(wish)
