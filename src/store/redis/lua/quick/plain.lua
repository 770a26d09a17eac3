-- Quick paths: the few calls that do for the plain case what the rules say, instead of all that they say. Each looks first, and leaves what it
-- does not know for plain to the rules, having changed nothing. `V.xx` is the place of the field xx (src/store/redis/scripts.rs).

-- The lock, if nothing but time has to be settled, with that settled, and whether that changed it. Else nothing: somebody waits or was dropped,
-- the lease is over, the clock stepped back, or ends that were put aside are to be forgotten all.
local function plain(key)
  local V, changed = load_lock(key), false
  if V.oq or V.np or V.mk then return nil end
  if V.li then
    local period = V.uh and math.min(V.tt, GRACE) or V.tt
    if V.ex <= now or V.ex > now + period then return nil end
  end
  if V.la and V.la > now or V.za and V.za > now or V.gf and now <= V.gf then return nil end
  if V.za and now >= V.za + MEMORY then
    if V.gs then return nil end
    V.zq, V.zf, V.zh, V.za, V.zl, V.zn, changed = nil, nil, nil, nil, nil, nil, true
  end
  if V.gs then V.gf, changed = math.max(V.gf or 0, now - MEMORY), true end
  if V.la and now >= V.la + MEMORY then V.lt, V.le, V.la, changed = nil, nil, nil, true end
  return V, changed
end
