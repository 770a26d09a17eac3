-- What time brings: expiry, lapsed offers, hand-off, forgetting.
local function promote()
  if L.li or L.oq or classic or not L.np then return end
  local first, place
  for _, replica in ipairs(replicas_in_line()) do
    local head = is_alive(replica) and redis.call('ZRANGE', line(replica), 0, 0, 'WITHSCORES') or {}
    if head[1] and (not place or tonumber(head[2]) < place) then first, place = head[1], tonumber(head[2]) end
  end
  if not first then return end
  local w = waiter_of(first)
  set_standing(first, 'O')
  put('oq', first); put('ou', now + CLAIM)
  look_again(w.replica, first, w.attempt)
end

local function abandon(upto)
  if not any_dropped then return end
  local overdue = redis.call('ZRANGEBYSCORE', K.dropped, '-inf', text(upto), 'WITHSCORES', 'LIMIT', 0, BATCH)
  for i = 1, #overdue, 2 do
    local w = waiter_of(overdue[i])
    take_out(overdue[i], w)
    remember(overdue[i], w.fingerprint, 'A', tonumber(overdue[i + 1]))
  end
end
