-- Issues the next fencing token to the holder of a place.
--
-- KEYS[4]  the counter
-- ARGV[1]  the token of the place
--
-- Returns the fencing token, or 0 if the token has no place.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
return redis.call('INCR', KEYS[4])
