--! flags: allow-oom
-- Renews a lease that a stream keeps. Repeated it renews again.
-- Takes: lock name, lease id, attachment
-- Reply: renewed, gone, attached_elsewhere
local lock_name, lease, attachment = ...
open(lock_name)
settle()
if L.li ~= lease then return gone(lease) end
if attachment ~= L.am then return answer('attached_elsewhere') end
extend(L.tt)
put('hd', 1)
return answer('renewed', L.tk, L.tt, L.ex - now)
