-- The caller's burst is ignored.
--
-- The capacity is a constant of the script.
--
--   limit buyer 1/s:3
--   10 ask buyer: 10 pass, and 3 should
--
-- KEYS 1 the bucket. ARGV tokens, per (microseconds), burst, cost. Returns 1 or 0.
local capacity = 10
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tokens, per, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local level = tonumber(redis.call('HGET', KEYS[1], 'level') or capacity)
local at = tonumber(redis.call('HGET', KEYS[1], 'at') or now)
level = math.min(capacity, level + (now - at) * tokens / per)
local allowed = level >= cost and 1 or 0
redis.call('HSET', KEYS[1], 'level', level - allowed * cost, 'at', string.format('%.0f', now))
return allowed
