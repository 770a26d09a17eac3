--! flags: allow-oom
-- Sets the time left of a lease to a TTL, or to its own. Repeated it renews again.
-- ARGV 7: lock name, lease id, TTL or nothing
-- Reply: renewed, gone
open(ARGV[7])
settle()
if L.li ~= ARGV[8] then return gone(ARGV[8]) end
extend(tonumber(ARGV[9]) or tonumber(L.tt))
put('hd', '1')
return answer('renewed', L.tk, L.tt, text(tonumber(L.ex) - now))
