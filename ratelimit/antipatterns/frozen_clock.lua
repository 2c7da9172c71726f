-- No refill until the clock has caught up.
--
-- If the clock goes back, nothing is refilled, and the stored time is in the future. The
-- bucket gets no token until the clock has reached that time.
--
--   limit buyer 1/s:2
--   2 ask buyer: 2 pass
--   after -1h, 1 ask buyer: 0 pass
--   after 1s, 2 ask buyer: 0 pass, and 1 should
--
-- KEYS 1 the bucket. ARGV tokens, per (microseconds), burst, cost. Returns 1 or 0.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tokens, per, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local level = tonumber(redis.call('HGET', KEYS[1], 'level') or burst)
local at = tonumber(redis.call('HGET', KEYS[1], 'at') or now)
level = math.min(burst, level + math.max(0, now - at) * tokens / per)
if level < cost then
  return 0
end
redis.call('HSET', KEYS[1], 'level', level - cost, 'at', string.format('%.0f', math.max(now, at)))
return 1
