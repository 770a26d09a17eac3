--! flags: no-writes
-- Reads a lock. Changes nothing.
-- Takes: lock name
-- Reply: seen, with the fields of the lock, how many wait, and the PTTL of a classic client's key if one has the lock
open((...))
look_at_classic()
local flat = {}
for _, field in ipairs({ 'tt', 'ex', 'tk', 'gr', 'ho', 'md', 'gi', 'pe', 'uh', 'lt', 'le', 'la' }) do
  if L[field] ~= nil then flat[#flat + 1] = field; flat[#flat + 1] = field == 'gi' and hex(L.gi) or L[field] end
end
return { 'seen', { flat, waiters(), classic or nil }, {} }
