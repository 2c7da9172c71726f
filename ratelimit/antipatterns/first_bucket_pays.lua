-- The first bucket pays for the refusal of the second.
--
-- The script takes from one bucket after the other. If the second bucket refuses, the
-- tokens of the first are lost.
--
--   limit buyer 10/s:10
--   limit sku 1/s:1
--   5 ask buyer and sku: 1 pass
--   9 ask buyer: 5 pass, and 9 should
--
-- KEYS the buckets. ARGV tokens, per (microseconds), burst, cost, the same for
-- each. Returns 1 or 0.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i, key in ipairs(KEYS) do
  local tokens, per = tonumber(ARGV[4 * i - 3]), tonumber(ARGV[4 * i - 2])
  local burst, cost = tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i])
  local level = tonumber(redis.call('HGET', key, 'level') or burst)
  local at = tonumber(redis.call('HGET', key, 'at') or now)
  level = math.min(burst, level + (now - at) * tokens / per)
  if level < cost then
    return 0
  end
  redis.call('HSET', key, 'level', level - cost, 'at', string.format('%.0f', now))
end
return 1
