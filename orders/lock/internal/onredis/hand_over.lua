-- The wait queue: functions of acquire.lua and release.lua, sent before each of them and
-- after value.lua, as part of one script.
--
-- The queue is a sorted set of tokens in order of arrival. The hash "waiters" has an entry
-- "deadline lease ask channel note" per token; ask is the index of the waiter's last
-- request. A waiter asks again from time to time, which moves its deadline. If the deadline
-- passes, by this server's clock, the waiter counts as dead. If the clock jumps, waiters
-- may lose their places, but the holder keeps the lock.

local function leave_queue(queue, waiters, token)
  redis.call('ZREM', queue, token)
  redis.call('HDEL', waiters, token)
end

-- Adds token to the end of the queue, or moves its deadline if it is already there.
local function join_queue(queue, waiters, token, patience, entry)
  if not redis.call('ZSCORE', queue, token) then
    local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')
    redis.call('ZADD', queue, (tonumber(last[2]) or 0) + 1, token)
  end
  local deadline = string.format('%.0f', clock_ms() + patience)
  redis.call('HSET', waiters, token, deadline .. ' ' .. entry)
  if redis.call('PTTL', queue) < patience then
    redis.call('PEXPIRE', queue, patience)
    redis.call('PEXPIRE', waiters, patience)
  end
end

-- Grants a free lock to the first living waiter, for that waiter's lease, and publishes the
-- grant. If no client receives the message, the waiter's process has probably crashed: the
-- waiter keeps its place, and the lock goes to the first waiter whose client receives the
-- message. A cluster node cannot count the receivers (reach = '0'), so the first waiter is
-- granted the lock there. If the account may not publish, pcall returns an error, which counts
-- as no receiver. Returns the token of the new holder, or false without a waiter.
local function hand_over(lock, queue, waiters, reach)
  if redis.call('EXISTS', queue) == 0 then
    return false
  end
  local now, place, unreached = clock_ms(), 0, nil
  while true do
    local token = redis.call('ZRANGE', queue, place, place)[1]
    if not token then
      break
    end
    local entry = redis.call('HGET', waiters, token) or ''
    local deadline, lease, ask, channel, note = string.match(entry, '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    if not deadline or tonumber(deadline) < now then
      leave_queue(queue, waiters, token)
    else
      local receivers = tonumber(redis.pcall('PUBLISH', channel, token .. ' ' .. ask)) or 0
      if receivers > 0 or reach == '0' then
        leave_queue(queue, waiters, token)
        redis.call('SET', lock, value_of(token, note), 'PX', lease)
        return token
      end
      unreached = unreached or { token = token, lease = lease, note = note }
      place = place + 1
    end
  end
  if not unreached then
    return false
  end
  leave_queue(queue, waiters, unreached.token)
  redis.call('SET', lock, value_of(unreached.token, unreached.note), 'PX', unreached.lease)
  return unreached.token
end
