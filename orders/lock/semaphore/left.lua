-- Returns for how many ms all places are still taken at least: 0 if one is free,
-- -1 for ever.
--
-- ARGV[1]  how many places there are
if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[1]) then
  return 0
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
return first == 'inf' and -1 or math.max(first - now, 1)
