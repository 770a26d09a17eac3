--! flags: allow-oom; quick: release
-- Gives a lease back and offers the lock to whoever is next. Repeated it answers how the lease ended.
-- Takes: lock name, lease id
-- Reply: released, gone
local lock_name, lease = ...
open(lock_name)
settle()
if L.li ~= lease then return gone(lease) end
end_lease('R', now)
promote()
return answer('released')
