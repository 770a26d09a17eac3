-- The newest end so far is put aside, and the lease's takes its place.
local function end_plainly(base, name, held)
  if za ~= -1 then
    local young = base .. 'e:' .. name
    spill_end(young, za, past)
    if gs == -1 then gs = za end
    if gk == -1 or now < gk or now >= gk + SECOND then
      redis.call('PEXPIRE', young, ttl_of(MEMORY + SECOND))
      if go ~= -1 then redis.call('PEXPIRE', base .. 'o:' .. name, ttl_of(MEMORY + SECOND)) end
      gk = now
    end
  end
  past = held:sub(1, 40) .. 'R\255\255\255\255'
  has, le, pe, lt, la, za, ex, tt, tk, gr = 0, 'R', ' ', tk, now, now, -1, -1, -1, -1
end
