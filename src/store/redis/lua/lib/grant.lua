-- The lease that carries the token. A candidate is its ids: lease, grant, attachment (or '').
local function grant(request, w, candidate)
  local token, lease, grant_id, attachment = draw(w.floor), unpack(candidate)
  if not token then promote(); return answer('exhausted') end
  put('rq', request); put('at', w.attempt); put('ca', w.calls); put('rp', w.replica); put('fg', w.fingerprint)
  put('li', lease); put('gi', grant_id); put('tk', token); put('gr', now); put('tt', w.ttl)
  put('ex', now + w.ttl); put('ho', w.holder); put('md', w.metadata); put('pe', L.le); put('aa', 0)
  if attachment ~= '' then put('am', attachment); put('ar', me); put('aa', 1) end
  effects[#effects + 1] = { 'granted', lease }
  watched('G', text(token), grant_id, w.holder, '')
  return answer('granted', L.li, L.gi, token, w.ttl, L.pe or '')
end

local function granted() return answer('granted', L.li, L.gi, L.tk, L.ex - now, L.pe or '') end

local function contention(code)
  if classic then return answer(code, waiters(), classic) end
  if not L.li then return answer(code, waiters()) end
  return answer(code, waiters(), L.ho, L.md, L.gi, L.tk, L.tt, L.ex - now, math.max(now - L.gr, 0))
end

-- Turns the offer to a waiter into a lease: here the token is drawn and the TTL begins.
local function grant_offered(request, w, candidate)
  take_out(request, w)
  decline(request)
  return grant(request, w, candidate)
end

-- Sets the time left to `ttl`, which becomes the lease's own; never shortens.
local function extend(ttl)
  if now + ttl >= L.ex then put('ex', now + ttl); put('tt', ttl) end
  put('uh', nil)
end

-- How a lease that the caller asked about has ended.
local function gone(lease)
  return answer('gone', end_of_lease(lease) or (L.li and 'superseded') or 'unknown', L.tk or '')
end
