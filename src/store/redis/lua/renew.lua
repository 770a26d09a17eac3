--! flags: allow-oom
-- Sets the time left of a lease to a TTL, or to its own. Repeated it renews again.
-- Takes: lock name, lease id, TTL or nothing
-- Reply: renewed, gone
local lock_name, lease, ttl = ...
open(lock_name)
settle()
if L.li ~= lease then return gone(lease) end
extend(ttl or L.tt)
put('hd', 1)
return answer('renewed', L.tk, L.tt, L.ex - now)
