-- What every command begins and ends with. Keys and arguments are named here once; src/store/redis/scripts.rs passes them.
-- KEYS: the bucket's own three. The keys of a lock, which lie in the same slot, are built from the bucket's prefix and the lock's name.
local K = { bucket = KEYS[1], count = KEYS[2], replicas = KEYS[3] }
local base, me, incarnation, name = ARGV[1], ARGV[2], ARGV[3], nil
local known_token, not_after, waiters_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

-- Lua prints a large number with 14 digits: times and tokens have 16.
local function text(number) return string.format('%.0f', number) end

local bucket = redis.call('HMGET', K.bucket, 'inc', 'left', 'watched')
local L, changed, effects = {}, {}, {}

-- Turns to a lock, and reads all that is fixed in size about it.
local function open(lock_name)
  name, L, changed = lock_name, {}, {}
  for key, letter in pairs({ lock = 'l', waiters = 'w', dropped = 'd', ended = 'e', order = 'o', marks = 'k' }) do
    K[key] = base .. letter .. ':' .. name
  end
  local flat = redis.call('HGETALL', K.lock)
  for i = 1, #flat, 2 do L[flat[i]] = flat[i + 1] end
end

local function put(field, value)
  if L[field] ~= value then L[field] = value; changed[field] = true end
end

-- A key of another type was not made by us. Found before the first write, it stops the command with nothing half done.
local function guard(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then error({ err = 'WRONGTYPE ' .. key .. ' holds a ' .. found }) end
end

-- Key TTLs are for clean-up only: the times inside decide.
local function keep(key, span) redis.call('PEXPIRE', key, text(math.ceil(span / 1000) + SLACK_MS)) end
