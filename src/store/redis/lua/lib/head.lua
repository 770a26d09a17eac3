-- What the commands of one sending share: who sent them, to which life of Redis, until when they may act. src/store/redis/links/batch.rs passes it.
local me, incarnation, not_after, waiters_max = cmsgpack.unpack(ARGV[1])

-- Lua prints a large number with 14 digits: times and tokens have 16.
local function text(number) return string.format('%.0f', number) end

-- All that is fixed in size about a lock is one text, so that one call reads it, and one writes it and sets its TTL.
local function load_lock(key)
  local found = redis.call('GET', key)
  local values = found and { cmsgpack.unpack(found) } or { MARK }
  if values[1] ~= MARK then error({ err = 'WRONGTYPE ' .. key .. ' holds no lock' }) end
  return values
end

-- Key TTLs are for clean-up only: the times inside decide.
local function ttl_of(span) return math.ceil(span / 1000) + SLACK_MS end

local function store_lock(key, values, last, fields)
  redis.call('SET', key, cmsgpack.pack(unpack(values, 1, fields)), 'PX', ttl_of(math.max(last + MEMORY - now, 0)))
end

local function spill_end(key, request, at, how, fingerprint, lease, attempt)
  local past = cmsgpack.pack({ at, how, fingerprint, lease or '', attempt or 0 })
  if lease then redis.call('HSET', key, 'q' .. request, past, 'l' .. lease, past) else redis.call('HSET', key, 'q' .. request, past) end
end
