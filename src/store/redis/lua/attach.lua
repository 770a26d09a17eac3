--! flags: allow-oom
-- Puts a lease into the keeping of a stream of this replica, and renews it. Repeated it changes nothing more.
-- ARGV 7: lock name, lease id, attachment attempt, attachment
-- Reply: renewed, gone, attached_elsewhere
open(ARGV[7])
settle()
if L.li ~= ARGV[8] then return gone(ARGV[8]) end
if tonumber(ARGV[9]) < tonumber(L.aa) then return answer('attached_elsewhere') end
local before, replica = L.am, L.ar
put('aa', ARGV[9]); put('am', ARGV[10]); put('ar', me)
extend(tonumber(L.tt))
put('hd', '1')
if before and before ~= ARGV[10] then tell(replica, 'detached', replica, L.li, before) end
return answer('renewed', L.tk, L.tt, text(tonumber(L.ex) - now))
