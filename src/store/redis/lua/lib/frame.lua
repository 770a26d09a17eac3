-- What every command begins and ends with, but those that a quick path does. The keys of a lock, which lie in the same slot, are built from the
-- bucket's prefix and the lock's name. The bucket: the incarnation of its last grant, and who watches.
local K, name = { bucket = base .. 'b', counter = base .. 'n', replicas = base .. 'r' }, nil
local bucket = redis.call('HMGET', K.bucket, 'inc', 'watched')
-- What was read of the lock's waiters, and whether any of them was dropped.
local L, changed, effects, read, any_dropped = {}, {}, {}, {}, false

-- Turns to a lock, and reads all that is fixed in size about it.
local function open(lock_name)
  name, L, changed, read, any_dropped = lock_name, {}, {}, {}, false
  for key, letter in pairs({ lock = 'l', waiters = 'w', dropped = 'd', young = 'e', old = 'o', marks = 'k' }) do
    K[key] = base .. letter .. ':' .. name
  end
  local found = redis.call('GET', K.lock)
  if not found then return end
  if found:sub(1, #MARK) ~= MARK then error({ err = 'WRONGTYPE ' .. K.lock .. ' holds no lock' }) end
  L = lock_of(found)
end

local function put(field, value)
  if L[field] ~= value then L[field] = value; changed[field] = true end
end

-- A key of another type was not made by us. Found before the first write, it stops the command with nothing half done.
local function guard(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then error({ err = 'WRONGTYPE ' .. key .. ' holds a ' .. found }) end
  return found ~= 'none'
end

local function keep(key, span) redis.call('PEXPIRE', key, ttl_of(span)) end
