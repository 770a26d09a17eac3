--! flags: allow-oom
-- Takes the lock from the holder of this token. Repeated it finds another token, or none, and does nothing.
-- ARGV 7: lock name, token, reason
-- Reply: revoked, not_held, token_mismatch
open(ARGV[7])
settle()
if not L.li then return answer('not_held') end
if L.tk ~= ARGV[8] then return answer('token_mismatch', L.tk) end
local holder = L.ho
end_lease('V', now, ARGV[9])
promote()
return answer('revoked', holder)
