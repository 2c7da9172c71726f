-- Debt after the clock goes back.
--
-- If the clock goes back, the refill is negative, without a lower bound. The bucket loses
-- tokens that were never taken.
--
--   limit buyer 1/s:2
--   2 ask buyer: 2 pass
--   after -1h, 1 ask buyer: 0 pass
--   after 1s, 2 ask buyer: 0 pass, and 1 should
--   after 1h, 3 ask buyer: 1 pass, and 2 should
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
return allowed
