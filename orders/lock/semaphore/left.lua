-- Returns for how many ms all places stay taken: 0 if a place is free, -1 if the places
-- never expire.
--
-- ARGV[1]  number of places
if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[1]) then
  return 0
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
return first == 'inf' and -1 or math.max(first - now, 1)
