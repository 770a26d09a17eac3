-- The lease that carries the token. A candidate is its ids: lease, grant, attachment (or '').
local function grant(request, w, candidate)
  local token, lease, grant_id, attachment = draw(w.floor), unpack(candidate)
  if not token then promote(); return answer('exhausted') end
  put('rq', request); put('at', text(w.attempt)); put('ca', text(w.calls)); put('rp', w.replica); put('fg', w.fingerprint)
  put('li', lease); put('gi', grant_id); put('tk', text(token)); put('gr', text(now)); put('tt', text(w.ttl))
  put('ex', text(now + w.ttl)); put('ho', w.holder); put('md', w.metadata); put('pe', L.le); put('aa', '0')
  if attachment ~= '' then put('am', attachment); put('ar', me); put('aa', '1') end
  effects[#effects + 1] = { 'granted', lease }
  watched('G', L.tk, grant_id, w.holder, '')
  return answer('granted', L.li, L.gi, L.tk, text(w.ttl), L.pe or '')
end

local function granted() return answer('granted', L.li, L.gi, L.tk, text(tonumber(L.ex) - now), L.pe or '') end

local function contention(code)
  if classic then return answer(code, tostring(waiters()), text(classic)) end
  if not L.li then return answer(code, tostring(waiters())) end
  return answer(code, tostring(waiters()), L.ho, L.md, L.gi, L.tk, L.tt, text(tonumber(L.ex) - now), text(math.max(now - tonumber(L.gr), 0)))
end

-- Turns the offer to a waiter into a lease: here the token is drawn and the TTL begins.
local function grant_offered(request, w, candidate)
  take_out(request, w)
  decline(request)
  return grant(request, w, candidate)
end

-- Sets the time left to `ttl`, which becomes the lease's own; never shortens.
local function extend(ttl)
  if now + ttl >= tonumber(L.ex) then put('ex', text(now + ttl)); put('tt', text(ttl)) end
  put('uh', nil)
end

-- How a lease that the caller asked about has ended.
local function gone(lease)
  return answer('gone', end_of_lease(lease) or (L.li and 'superseded') or 'unknown', L.tk or '')
end
