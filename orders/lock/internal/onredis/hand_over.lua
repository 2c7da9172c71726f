-- What acquire.lua and release.lua share: the line of those who wait. It is
-- sent before each of them, after value.lua, as part of one script.
--
-- The line is a sorted set of tokens in order of arrival, with a hash of what
-- is known of each: "deadline lease ask channel note". A waiter says from time to
-- time that it is still there; one that has not until its deadline, by this
-- server's clock, is taken for dead. A clock that jumps can cost waiters their
-- place, never the lock its holder.

local function leave_line(line, waiters, token)
  redis.call('ZREM', line, token)
  redis.call('HDEL', waiters, token)
end

-- Puts token at the end of the line, or says that it is still in it.
local function join_line(line, waiters, token, patience, entry)
  if not redis.call('ZSCORE', line, token) then
    local last = redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')
    redis.call('ZADD', line, (tonumber(last[2]) or 0) + 1, token)
  end
  local deadline = string.format('%.0f', clock_ms() + patience)
  redis.call('HSET', waiters, token, deadline .. ' ' .. entry)
  if redis.call('PTTL', line) < patience then
    redis.call('PEXPIRE', line, patience)
    redis.call('PEXPIRE', waiters, patience)
  end
end

-- Gives a lock that nobody holds to the first in line who lives, for a lease
-- of its own, and tells it so. Whom the message does not reach keeps its place
-- but is passed over while somebody else is reached: most likely its process is
-- gone. A node of a cluster does not know who hears a message (reach = '0').
-- Returns the token of the new holder, or false when nobody waits.
local function hand_over(lock, line, waiters, reach)
  if redis.call('EXISTS', line) == 0 then
    return false
  end
  local now, place, unheard = clock_ms(), 0, nil
  while true do
    local token = redis.call('ZRANGE', line, place, place)[1]
    if not token then
      break
    end
    local entry = redis.call('HGET', waiters, token) or ''
    local deadline, lease, ask, channel, note = string.match(entry, '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    if not deadline or tonumber(deadline) < now then
      leave_line(line, waiters, token)
    else
      local heard = redis.call('PUBLISH', channel, token .. ' ' .. ask)
      if heard > 0 or reach == '0' then
        leave_line(line, waiters, token)
        redis.call('SET', lock, value_of(token, note), 'PX', lease)
        return token
      end
      unheard = unheard or { token = token, lease = lease, note = note }
      place = place + 1
    end
  end
  if not unheard then
    return false
  end
  leave_line(line, waiters, unheard.token)
  redis.call('SET', lock, value_of(unheard.token, unheard.note), 'PX', unheard.lease)
  return unheard.token
end
