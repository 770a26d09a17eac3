-- A stored time further ahead than its own period means that the clock stepped back: cut to now + period, it heals.
local function heal()
  local period = tonumber(L.tt or 0)
  if L.uh then period = math.min(period, GRACE) end
  if L.ex and tonumber(L.ex) > now + period then put('ex', text(now + period)) end
  if L.ou and tonumber(L.ou) > now + CLAIM then put('ou', text(now + CLAIM)) end
  if L.la and tonumber(L.la) > now then put('la', text(now)) end
  if L.np then
    local late = redis.call('ZRANGEBYSCORE', K.dropped, '(' .. text(now + GRACE), '+inf')
    for _, request in ipairs(late) do set_standing(request, 'D', now + GRACE) end
  end
  if L.mk then
    for _, mark in ipairs(redis.call('ZRANGEBYSCORE', K.marks, '(' .. text(now + WINDOW), '+inf')) do
      redis.call('ZADD', K.marks, text(now + WINDOW), mark)
    end
  end
  if L.en and tonumber(L.en) > now then
    put('en', text(now))
    local all = redis.call('LRANGE', K.order, 0, -1)
    redis.call('DEL', K.order)
    for _, packed in ipairs(all) do
      local at, request, lease = unpack(cmsgpack.unpack(packed))
      at = math.min(at, now)
      redis.call('RPUSH', K.order, cmsgpack.pack({ at, request, lease }))
      local past = find_ended('q' .. request)
      if past then past[3] = math.min(past[3], now); redis.call('HSET', K.ended, 'q' .. request, cmsgpack.pack(past)) end
      local over = lease ~= '' and find_ended('l' .. lease)
      if over then over[2] = math.min(over[2], now); redis.call('HSET', K.ended, 'l' .. lease, cmsgpack.pack(over)) end
    end
    keep(K.order, MEMORY)
  end
end
