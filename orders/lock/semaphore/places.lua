-- What the scripts of the semaphore share. It is sent before each of them.
--
-- KEYS[1]  who has a place: tokens by the end of their leases
-- KEYS[2]  the line of those who wait: tokens in order of arrival
-- KEYS[3]  until when each of them is taken for alive, if it does not ask again
-- All times are milliseconds by this server's clock.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)

-- lease_of returns the lease in which a token ends, in ms.
local function lease_of(token)
  return tonumber(string.match(token, '%.(%d+)$') or math.huge)
end

-- After a step of the clock a place may end later than one lease from now. It then
-- ends in one lease: otherwise a dead holder would keep it for the whole step.
while true do
  local token, ends = unpack(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES'))
  if not token or ends == 'inf' or ends - now <= lease_of(token) then
    break
  end
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + lease_of(token)), token)
end

local function leave_line(token)
  redis.call('ZREM', KEYS[2], token)
  redis.call('HDEL', KEYS[3], token)
end

local function keep(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end

local function begin_lease(token, ms)
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ms), token)
  keep(KEYS[1], ms)
end
