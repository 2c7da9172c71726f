-- Starts a new lease for a reentrant lock that has the caller's entry.
--
-- KEYS[1]  the lock
-- ARGV[1]  the entry
-- ARGV[2]  lease in ms
--
-- Returns   1  renewed for one lease from now
--           0  the key is missing: the lease has ended
--          -1  the entry is missing: another owner holds the lock
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
if redis.call('HEXISTS', KEYS[1], 'entry:' .. ARGV[1]) == 0 then
  return -1
end
keep(ARGV[2])
return 1
