-- Twice the rate when the second changes.
--
-- The script counts in whole seconds. The last millisecond of one second and the first of
-- the next are one second apart to it, so the tokens of a whole second come at once.
--
--   limit buyer 10/s:10
--   10 ask buyer: 10 pass
--   after 1ms, 10 ask buyer: 10 pass, and 0 should
--
-- KEYS 1 the bucket. ARGV tokens, per (microseconds), burst, cost. Returns 1 or 0.
local now = tonumber(redis.call('TIME')[1])
local tokens, per, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local level = tonumber(redis.call('HGET', KEYS[1], 'level') or burst)
local at = tonumber(redis.call('HGET', KEYS[1], 'at') or now)
level = math.min(burst, level + (now - at) * tokens * 1000000 / per)
local allowed = level >= cost and 1 or 0
redis.call('HSET', KEYS[1], 'level', level - allowed * cost, 'at', now)
return allowed
