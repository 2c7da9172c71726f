-- Leaves a reentrant lock; the last entry to leave frees it.
--
-- KEYS[1]  the lock
-- ARGV[1]  the entry
--
-- Returns   1  left
--           0  no such key: the lease has ended
--          -1  the entry is not there: another owner's lock
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
if redis.call('HDEL', KEYS[1], 'entry:' .. ARGV[1]) == 0 then
  return -1
end
if redis.call('HLEN', KEYS[1]) == 1 then -- the owner's field alone
  redis.call('DEL', KEYS[1])
end
return 1
