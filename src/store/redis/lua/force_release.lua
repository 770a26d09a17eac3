--! flags: allow-oom
-- Takes the lock from the holder of this token. Repeated it finds another token, or none, and does nothing.
-- Takes: lock name, token, reason
-- Reply: revoked, not_held, token_mismatch
local lock_name, token, reason = ...
open(lock_name)
settle()
if not L.li then return answer('not_held') end
if L.tk ~= token then return answer('token_mismatch', L.tk) end
local holder = L.ho
end_lease('V', now, reason)
promote()
return answer('revoked', holder)
