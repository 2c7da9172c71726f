-- Frequent callers get no tokens.
--
-- The script rounds the refill down to whole tokens, but stores the new time on every
-- call. A client that asks more often than tokens are refilled never gets one.
--
--   limit buyer 1/s:1
--   100 times after 600ms, 1 ask buyer: 1 pass, and 50 should
--
-- KEYS 1 the bucket. ARGV tokens, per (microseconds), burst, cost. Returns 1 or 0.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tokens, per, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local level = tonumber(redis.call('HGET', KEYS[1], 'level') or burst)
local at = tonumber(redis.call('HGET', KEYS[1], 'at') or now)
level = math.min(burst, level + math.floor((now - at) * tokens / per))
local allowed = level >= cost and 1 or 0
redis.call('HSET', KEYS[1], 'level', level - allowed * cost, 'at', string.format('%.0f', now))
return allowed
