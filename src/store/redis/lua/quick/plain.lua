-- Quick paths: the few calls that do for the plain case what the rules say, instead of all that they say. Each looks first, and leaves what it
-- does not know for plain to the rules, having changed nothing. What makes them quick: times and tokens are read and written all at once, and
-- the parts of a lock (lib/layout.lua) are passed on as the texts that they are.
local has, le, pe, ex, tt, tk, gr, lt, la, za, gs, go, gf, gk, past, lease_at, changed

-- Reads the lock, if nothing but time has to be settled, and settles that. False if it is not ours, the lease is over, the clock stepped back, or ends that were
-- put aside are to be forgotten all. Whether somebody waits (QUEUED) is for the caller to look at.
local function plain(found)
  local mark, at
  mark, has, le, pe, ex, tt, tk, gr, lt, la, za, gs, go, gf, gk, at = struct.unpack(HEAD, found or NOTHING)
  if mark ~= MARK then return false end
  if ex ~= -1 then
    local period = bit.band(has, UNHEARD) ~= 0 and math.min(tt, GRACE) or tt
    if ex <= now or ex > now + period then return false end
  end
  if la > now or za > now or now <= gf then return false end
  past, lease_at, changed = '', at, false
  if za ~= -1 then
    past, lease_at = found:sub(at, at + PAST_LENGTH - 1), at + PAST_LENGTH
    if now >= za + MEMORY then
      if gs ~= -1 then return false end
      past, za, changed = '', -1, true
    end
  end
  if gs ~= -1 then gf, changed = math.max(gf, now - MEMORY, 0), true end
  if la ~= -1 and now >= la + MEMORY then lt, le, la, changed = -1, ' ', -1, true end
  return true
end

local function is_queued() return bit.band(has, QUEUED) ~= 0 end

-- `rest`: the lease and the queue.
local function put_lock(key, rest, kept_for)
  redis.call('SET', key, struct.pack(HEAD_AND_PARTS, MARK, has, le, pe, ex, tt, tk, gr, lt, la, za, gs, go, gf, gk, past, rest), 'PX', kept_for)
end
