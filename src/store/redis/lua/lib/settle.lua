-- The beginning of every command that may write: what is out of date is brought up to now.
local function delete_gone()
  local left = BATCH
  for _, replica in ipairs(replicas_in_line()) do
    if is_gone(replica) then
      for _, key in ipairs({ line(replica), missed(replica) }) do
        for _, request in ipairs(left > 0 and redis.call('ZRANGE', key, 0, left - 1) or {}) do
          take_out(request, waiter_of(request))
          left = left - 1
        end
      end
    end
  end
end

local function settle()
  guard(K.young, 'hash'); guard(K.old, 'hash')
  if L.np then guard(K.waiters, 'hash'); any_dropped = guard(K.dropped, 'zset'); guard(K.replicas, 'hash') end
  if L.mk then guard(K.marks, 'zset') end
  look_at_classic()
  heal()
  if L.li and L.ex <= now then
    abandon(L.ex)
    end_lease('E', L.ex)
  end
  if L.oq and L.ou <= now then
    local request = L.oq
    put('oq', nil); put('ou', nil)
    set_standing(request, 'M')
  end
  make_way(); abandon(now); delete_gone(); forget()
  if L.la and now >= L.la + MEMORY then put('lt', nil); put('le', nil); put('la', nil) end
  if L.mk then
    redis.call('ZREMRANGEBYSCORE', K.marks, '-inf', '(' .. text(now))
    if redis.call('EXISTS', K.marks) == 0 then put('mk', nil) end
  end
  promote()
end
