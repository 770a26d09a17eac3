-- The text of a lock (layout.lua), read into its fields and written from them.
local MAY_LACK = { 'le', 'pe', 'ex', 'tt', 'tk', 'gr', 'lt', 'la', 'za', 'gs', 'go', 'gf', 'gk', 'zl', 'zn', 'am', 'ar', 'ou', 'np', 'mk', 'rs' }

local function lock_of(found)
  local it, _, has, at = {}, nil, nil, nil
  _, has, it.le, it.pe, it.ex, it.tt, it.tk, it.gr, it.lt, it.la, it.za, it.gs, it.go, it.gf, it.gk, at = struct.unpack(HEAD, found)
  if it.za ~= -1 then it.zq, it.zf, it.zl, it.zh, it.zn, at = struct.unpack(PAST, found, at) end
  if bit.band(has, LEASED) ~= 0 then
    it.rq, it.fg, it.li, it.gi, it.rp, it.am, it.ar, it.at, it.aa, it.ho, it.md, it.ca, at = struct.unpack(LEASE, found, at)
  end
  if bit.band(has, QUEUED) ~= 0 then it.oq, it.ou, it.np, it.mk, it.rs = struct.unpack(QUEUE, found, at) end
  for _, field in ipairs(MAY_LACK) do
    local value = it[field]
    if value == -1 or value == NONE or value == ' ' or value == '' then it[field] = nil end
  end
  if not it.ou then it.oq = nil end
  if bit.band(has, UNHEARD) ~= 0 then it.uh = 1 end
  if bit.band(has, HEARD) ~= 0 then it.hd = 1 end
  return it
end

local function text_of(it)
  local queued = it.oq or it.np or it.mk or it.rs
  local has = (it.li and LEASED or 0) + (queued and QUEUED or 0) + (it.uh and UNHEARD or 0) + (it.hd and HEARD or 0)
  return struct.pack(HEAD, MARK, has, it.le or ' ', it.pe or ' ', it.ex or -1, it.tt or -1, it.tk or -1, it.gr or -1, it.lt or -1,
      it.la or -1, it.za or -1, it.gs or -1, it.go or -1, it.gf or -1, it.gk or -1)
    .. (it.za and struct.pack(PAST, it.zq, it.zf, it.zl or NONE, it.zh, it.zn or -1) or '')
    .. (it.li and struct.pack(LEASE, it.rq, it.fg, it.li, it.gi, it.rp, it.am or NONE, it.ar or NONE, it.at, it.aa,
      #it.ho, it.ho, #it.md, it.md, #it.ca, it.ca) or '')
    .. (queued and struct.pack(QUEUE, it.oq or NONE, it.ou or -1, it.np or -1, it.mk or -1, #(it.rs or ''), it.rs or '') or '')
end
