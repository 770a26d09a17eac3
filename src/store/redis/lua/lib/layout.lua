-- A lock is one text, so that one call reads it and one writes it and sets its TTL. Its head: the mark, a sum of what it has, how the lease
-- before ended (le; pe: the one before the lease that it has), and its times and tokens, -1 where there is none. Then come its parts, if it has
-- them: the newest end, the lease, the queue. Ids are the 16 bytes that they are (Redis' Lua hashes each byte of each text), zeros where there is none.
local HEAD = '<c3Bc1c1ddddddddddd'
local HEAD_AND_PARTS = '<c3Bc1c1dddddddddddc0c0'
local HEAD_END = 94
local PAST = '<c16c8c16c1i4'
local PAST_LENGTH = 45
-- A value of a hash with this behind it is longer than hash-max-listpack-value (64 bytes).
local WIDENED = '\0\0\0\0\0\0\0\0\0\0\0\0'
local LEASE = '<c16c8c16c16c16c16c16I4I4Hc0I4c0Bc0'
local LEASE_IDS = 104
local ATTEMPT_AT = 105
local HOLDER_AT = 112
local QUEUE = '<c16ddbI4c0'
local LEASED = 1
local QUEUED = 2
local UNHEARD = 4
local HEARD = 8
local NO_TAG = '\0\0\0\0\0\0\0\0'
local NO_STREAM = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local NONE = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
