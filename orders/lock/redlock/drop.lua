-- Gives a token up at one master, with the vote that it has, or that may still be
-- on its way.
--
-- KEYS[1]  the lock
-- KEYS[2]  is there once the token was given up, for a lease: no vote is on its way
--          for longer
-- ARGV[1]  the token
-- ARGV[2]  lease in ms
--
-- Returns   1  the vote is free
--           0  the token had none: the lease has ended
--          -1  another token has it, which stays as it is
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], '', 'PX', ARGV[2])
if not holder then
  return 0
end
return holder == ARGV[1] and 1 or -1
