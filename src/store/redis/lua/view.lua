--! flags: no-writes
-- Reads a lock. Changes nothing.
-- ARGV 7: lock name
-- Reply: seen, with the fields of the lock and how many wait
open(ARGV[7])
local flat = {}
for field, value in pairs(L) do flat[#flat + 1] = field; flat[#flat + 1] = value end
return { text(now), 'seen', { flat, text(waiters()) }, {} }
