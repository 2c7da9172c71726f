-- Twice the limit at the edge of a window.
--
-- The script counts requests in windows of the clock. The end of one window and the start
-- of the next together let through twice the limit.
--
--   limit buyer 10/s:10
--   9 ask buyer: 9 pass
--   after 120ms, 10 ask buyer: 10 pass, and 2 should
--
-- KEYS 1 the bucket. ARGV tokens, per (microseconds), burst, cost. Returns 1 or 0.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tokens, per, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local window = KEYS[1] .. ':' .. string.format('%.0f', math.floor(now / per))
local count = redis.call('INCRBY', window, cost)
redis.call('PEXPIRE', window, math.ceil(per / 1000))
return count <= tokens and 1 or 0
