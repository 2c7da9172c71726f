-- Acquires a place for one lease if there are more free places than living waiters ahead of
-- the token. Otherwise the token may join the wait queue.
--
-- ARGV[1]  the token
-- ARGV[2]  lease in ms
-- ARGV[3]  number of places
-- ARGV[4]  1 to join the wait queue, else 0
--
-- Returns   0  the token has a place
--           1  the token has no place
local token, lease = ARGV[1], tonumber(ARGV[2])
local free = ARGV[3] - redis.call('ZCARD', KEYS[1])
if not redis.call('ZSCORE', KEYS[1], token) then -- if the token has a place, its answer was lost
  local ahead = 0 -- living waiters ahead; the loop reads only as much of the queue as it needs
  while free > 0 do
    local other = redis.call('ZRANGE', KEYS[2], ahead, ahead)[1]
    if not other or other == token then
      break
    end
    local deadline = redis.call('HGET', KEYS[3], other)
    if deadline and deadline + 0 >= now and deadline - now <= lease_of(other) then
      free, ahead = free - 1, ahead + 1
    else
      leave_queue(other)
    end
  end
  if free <= 0 then
    if ARGV[4] == '1' then
      if not redis.call('ZSCORE', KEYS[2], token) then
        local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
        redis.call('ZADD', KEYS[2], (last[2] or 0) + 1, token)
      end
      redis.call('HSET', KEYS[3], token, string.format('%.0f', now + lease))
      keep(KEYS[2], lease)
      keep(KEYS[3], lease)
    end
    return 1
  end
end
leave_queue(token)
begin_lease(token, lease)
return 0
