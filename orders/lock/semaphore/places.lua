-- Functions of the semaphore's scripts, sent before each of them.
--
-- KEYS[1]  the places: tokens of the holders, sorted by the end of their leases
-- KEYS[2]  the wait queue: tokens in order of arrival
-- KEYS[3]  deadline of each waiter; a waiter that does not ask again by then counts as dead
-- All times are in ms by this server's clock.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)

-- lease_of returns the lease of a token in ms. The token ends in it.
local function lease_of(token)
  return tonumber(string.match(token, '%.(%d+)$') or math.huge)
end

-- If the server's clock was set back, a lease may end later than one lease from now. It is
-- shortened to one lease from now. Otherwise a dead holder would keep its place until the
-- clock catches up.
while true do
  local token, ends = unpack(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES'))
  if not token or ends == 'inf' or ends - now <= lease_of(token) then
    break
  end
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + lease_of(token)), token)
end

local function leave_queue(token)
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
