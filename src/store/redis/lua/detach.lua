--! flags: allow-oom
-- Takes a lease out of the keeping of this attachment, if it is still the one. Repeated it does nothing.
-- Takes: lock name, lease id, attachment
-- Reply: done
local lock_name, lease, attachment = ...
open(lock_name)
settle()
if L.li == lease and L.am == attachment then
  put('am', nil); put('ar', nil); put('aa', 0)
end
return answer('done')
