--! flags: allow-oom
-- A replica's heartbeat in a bucket, and the net under hints that got lost: for each of its locks there, who is next is served, and its own waiters
-- that missed an offer stand in line again. Repeated it says the same.
-- Takes: lock names
-- Reply: polled, with for each lock: the request and attempt that it is on offer to (if this replica carries it), its waiters here, and the first place in line
hear_of_me()
local found = {}
for _, lock_name in ipairs({ ... }) do
  open(lock_name)
  settle()
  for _, request in ipairs(redis.call('ZRANGE', missed(me), 0, -1)) do set_standing(request, 'I') end
  promote()
  local w = L.oq and waiter_of(L.oq)
  local mine = w and w.replica == me
  found[#found + 1] = { mine and L.oq or '', mine and w.attempt or 0,
    redis.call('ZCARD', line(me)) + redis.call('ZCARD', missed(me)), first_place() }
  for _, key in ipairs({ K.waiters, K.dropped, line(me), missed(me) }) do keep(key, GONE) end
  write_back()
end
return { 'polled', found, effects }
