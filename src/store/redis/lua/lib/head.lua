-- What the commands of one sending share: who sent them, to which life of Redis, until when they may act. src/store/redis/sender.rs makes it.
local me, incarnation, not_after, waiters_max, incarnation_id = cmsgpack.unpack(ARGV[1])

-- Lua prints a large number with 14 digits: times and tokens have 16.
local function text(number) return string.format('%.0f', number) end

-- An id as people, channels and names of keys have it.
local digits = {}
local function hex(id)
  digits[id] = digits[id] or id:gsub('.', function(byte) return string.format('%02x', byte:byte()) end)
  return digits[id]
end

-- Key TTLs are for clean-up only: the times inside decide.
local function ttl_of(span) return math.ceil(span / 1000) + SLACK_MS end

-- The TTL of a lock's key as text, which Redis takes faster than a number, for as long as `till` is remembered. Most are alike.
local last_span, last_text
local function ttl_text(till)
  local span = math.max(till + MEMORY - now, 0)
  if span ~= last_span then last_span, last_text = span, text(ttl_of(span)) end
  return last_text
end

-- What a request and the ids of its leases have in common (LeaseId::of in src/domain/ids.rs).
local function tag_of(request)
  local digest = redis.sha1hex(request)
  local half = digest:sub(1, 12) .. '8' .. digest:sub(14, 16)
  return (half:gsub('..', function(byte) return string.char(tonumber(byte, 16)) end))
end

-- An end that is not the newest any more. Where the next one came soon after it, there will be many: then it is made wider than what Redis keeps in
-- one list, which it would search from end to end.
local function spill_end(key, at, past)
  local tag = past:sub(25, 32)
  if tag == NO_TAG then tag = tag_of(past:sub(1, 16)) end
  redis.call('HSET', key, tag, struct.pack('<dc0c0', at, past, now - at < SOON and WIDENED or ''))
end
