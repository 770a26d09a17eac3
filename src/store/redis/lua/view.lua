--! flags: no-writes
-- Reads a lock. Changes nothing.
-- Takes: lock name
-- Reply: seen, with the fields of the lock, how many wait, and the PTTL of a classic client's key if one has the lock
open((...))
look_at_classic()
local flat = {}
for field, value in pairs(L) do flat[#flat + 1] = field; flat[#flat + 1] = value end
return { 'seen', { flat, waiters(), classic or nil }, {} }
