-- The key expires at once.
--
-- The time to live is rounded down to whole seconds. A bucket that is full again within a
-- second expires as it is written, so every request passes.
--
--   limit buyer 10/s:5
--   20 ask buyer: 20 pass, and 5 should
--
-- KEYS 1 the bucket. ARGV tokens, per (microseconds), burst, cost. Returns 1 or 0.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tokens, per, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local level = tonumber(redis.call('HGET', KEYS[1], 'level') or burst)
local at = tonumber(redis.call('HGET', KEYS[1], 'at') or now)
level = math.min(burst, level + (now - at) * tokens / per)
local allowed = level >= cost and 1 or 0
redis.call('HSET', KEYS[1], 'level', level - allowed * cost, 'at', string.format('%.0f', now))
redis.call('EXPIRE', KEYS[1], math.floor(burst * per / tokens / 1000000))
return allowed
