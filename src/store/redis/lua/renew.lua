--! flags: allow-oom
-- Sets the time left to a TTL, or to the lease's own. With an attachment: only while that keeps the lease. Repeated it renews again.
-- ARGV 7: lock name, lease id, TTL or nothing, attachment or nothing
-- Reply: renewed, gone, attached_elsewhere
open(ARGV[7])
settle()
if L.li ~= ARGV[8] then return gone(ARGV[8]) end
if ARGV[10] ~= '' and ARGV[10] ~= L.am then return answer('attached_elsewhere') end
extend(tonumber(ARGV[9]) or tonumber(L.tt))
put('hd', '1')
return answer('renewed', L.tk, L.tt, text(tonumber(L.ex) - now))
