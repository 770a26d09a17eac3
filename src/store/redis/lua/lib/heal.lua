-- A stored time further ahead than its own period means that the clock stepped back: cut to now + period, it heals.
local function heal()
  local period = L.tt or 0
  if L.uh then period = math.min(period, GRACE) end
  if L.ex and L.ex > now + period then put('ex', now + period) end
  if L.ou and L.ou > now + CLAIM then put('ou', now + CLAIM) end
  if L.la and L.la > now then put('la', now) end
  if any_dropped then
    local late = redis.call('ZRANGEBYSCORE', K.dropped, '(' .. text(now + GRACE), '+inf')
    for _, request in ipairs(late) do set_standing(request, 'D', now + GRACE) end
  end
  if L.mk then
    for _, mark in ipairs(redis.call('ZRANGEBYSCORE', K.marks, '(' .. text(now + WINDOW), '+inf')) do
      redis.call('ZADD', K.marks, text(now + WINDOW), mark)
    end
  end
  if L.za and L.za > now or L.gf and now <= L.gf then rewrite_ends(); put('za', math.min(L.za, now)) end
end
