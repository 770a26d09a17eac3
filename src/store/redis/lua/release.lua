--! flags: allow-oom
-- Gives a lease back and offers the lock to whoever is next. Repeated it answers how the lease ended.
-- ARGV 7: lock name, lease id
-- Reply: released, gone
open(ARGV[7])
settle()
if L.li ~= ARGV[8] then return gone(ARGV[8]) end
end_lease('R', now)
promote()
return answer('released')
