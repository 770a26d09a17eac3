--! flags: allow-oom
-- Takes a lease back because its stream ended, if this attachment still keeps it. Repeated it does nothing.
-- Takes: lock name, lease id, attachment
-- Reply: done
local lock_name, lease, attachment = ...
open(lock_name)
settle()
if L.li == lease and L.am == attachment then
  end_lease('V', now, 'stream ended')
  promote()
end
return answer('done')
