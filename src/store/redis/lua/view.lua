--! flags: no-writes
-- Reads a lock. Changes nothing.
-- ARGV 7: lock name
-- Reply: seen, with the fields of the lock, how many wait, and the PTTL of a classic client's key if one has the lock
open(ARGV[7])
look_at_classic()
local flat = {}
for field, value in pairs(L) do flat[#flat + 1] = field; flat[#flat + 1] = value end
return { text(now), 'seen', { flat, text(waiters()), classic and text(classic) or nil }, {} }
