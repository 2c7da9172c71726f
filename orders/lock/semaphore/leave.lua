-- Releases a place, or removes the token from the wait queue.
--
-- ARGV[1]  the token
-- ARGV[3]  number of places
--
-- Returns   1  released
--           0, -1  as renew.lua
leave_queue(ARGV[1])
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  return 1
end
return redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3]) and 0 or -1
