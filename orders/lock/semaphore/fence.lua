-- Counts who has had a place.
--
-- KEYS[4]  the counter
-- ARGV[1]  the token
--
-- Returns the number, or 0 where the token has no place.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
return redis.call('INCR', KEYS[4])
