-- Starts a new lease for a place, if the token still has it.
--
-- ARGV[1]  the token
-- ARGV[2]  lease in ms
-- ARGV[3]  how many places there are
--
-- Returns   1  renewed
--           0  the lease has ended
--          -1  the lease has ended, and others have all places
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3]) and 0 or -1
end
begin_lease(ARGV[1], tonumber(ARGV[2]))
return 1
