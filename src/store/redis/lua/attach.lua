--! flags: allow-oom
-- Puts a lease into the keeping of a stream of this replica, and renews it. Repeated it changes nothing more.
-- Takes: lock name, lease id, attachment attempt, attachment
-- Reply: renewed, gone, attached_elsewhere
local lock_name, lease, attempt, attachment = ...
open(lock_name)
settle()
if L.li ~= lease then return gone(lease) end
if attempt < L.aa then return answer('attached_elsewhere') end
local before, replica = L.am, L.ar
put('aa', attempt); put('am', attachment); put('ar', me)
extend(L.tt)
put('hd', 1)
if before and before ~= attachment then tell(replica, 'detached', replica, L.li, before) end
return answer('renewed', L.tk, L.tt, L.ex - now)
