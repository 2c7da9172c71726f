-- Gives a lock to a new token, for one lease from now, if it is still the old one's.
-- The old token is good for nothing after that: of two who try, one gets the lock.
--
-- KEYS[1]  the lock
-- ARGV[1]  the old token
-- ARGV[2]  the new one
-- ARGV[3]  lease in ms
-- ARGV[4]  the new holder's note, '' for none
--
-- Returns   1  held by the new token
--           0  no such key: the lease has ended
--          -1  another token holds the lock
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if is_of(ARGV[2], holder) then -- the answer to that was lost
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return 1
end
if not is_of(ARGV[1], holder) then
  return -1
end
local value = value_of(ARGV[2], ARGV[4])
redis.call('DEL', KEYS[1]) -- before the write, as in acquire.lua
redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
return 1
