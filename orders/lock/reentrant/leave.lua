-- Removes an entry from a reentrant lock. Removing the last entry frees the lock.
--
-- KEYS[1]  the lock
-- ARGV[1]  the entry
--
-- Returns   1  removed
--           0  the key is missing: the lease has ended
--          -1  the entry is missing: it was removed, or another owner holds the lock
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
if redis.call('HDEL', KEYS[1], 'entry:' .. ARGV[1]) == 0 then
  return -1
end
if redis.call('HLEN', KEYS[1]) == 1 then -- only the field "owner" is left
  redis.call('DEL', KEYS[1])
end
return 1
