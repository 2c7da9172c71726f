-- Starts a new lease for the place that the token has.
--
-- ARGV[1]  the token
-- ARGV[2]  lease in ms
-- ARGV[3]  number of places
--
-- Returns   1  renewed
--           0  the lease has ended
--          -1  the lease has ended, and other tokens have all places
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3]) and 0 or -1
end
begin_lease(ARGV[1], tonumber(ARGV[2]))
return 1
