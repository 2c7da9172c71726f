-- Starts a new lease for a reentrant lock.
--
-- KEYS[1]  the lock
-- ARGV[1]  an entry
-- ARGV[2]  lease in ms
--
-- Returns   1  renewed, for one lease from now
--           0  no such key: the lease has ended
--          -1  the entry is not there: another owner's lock
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
if redis.call('HEXISTS', KEYS[1], 'entry:' .. ARGV[1]) == 0 then
  return -1
end
keep(ARGV[2])
return 1
