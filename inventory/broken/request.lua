-- Put before each of this package's scripts: what they do right. One request
-- is judged and recorded as reserve.lua does it, all but what each script
-- gets wrong: the units.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 replays
-- ARGV  1 order id  2 buyer  3 quantity  4 idempotency key or ''
--       5 fingerprint  6 node that waits  7 for how long keys are remembered, seconds
--       8 channel to wake the keeper on  9 what to say there
-- Outcomes are those of reserve.lua.
local id, buyer, quantity, key, print, node = unpack(ARGV, 1, 6)
quantity = tonumber(quantity)
local sale = redis.call('HMGET', KEYS[1], 'state', 'opens_at', 'closes_at', 'per_buyer', 'available', 'total')
local available = tonumber(sale[5] or '0')
local held = redis.call('HGET', KEYS[3], buyer)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function refuse(code)
  return held and code - 10 or code
end

local function within_limit()
  return tonumber(held or '0') + quantity <= tonumber(sale[4])
end

-- judge: the outcome, where it does not hang on limit and stock; else nil.
local function judge()
  if sale[1] ~= 'open' then return sale[1] and -2 or -1 end
  if id == '' or string.find(id, ' ', 1, true) or buyer == '' or quantity < 1 then return refuse(-9) end
  local hold = redis.call('HGET', KEYS[2], id)
  local since = hold and tonumber(string.match(hold, '^%d+ (%d+)')) or now
  local earlier = key ~= '' and redis.call('HGET', KEYS[5], #buyer .. ':' .. buyer .. '/' .. key)
  if earlier then
    local first, body = string.match(earlier, '^([^ ]+) (.*)$')
    if body ~= print then return refuse(-8) end
    return first ~= id and first or since
  end
  if hold then return since end
  if now < tonumber(sale[2]) then return refuse(-4) end
  if now >= tonumber(sale[3]) then return refuse(-5) end
end

-- record: the order is let in, and its units have been taken. Returns when.
local function record()
  if redis.call('XLEN', KEYS[4]) == 0 then redis.call('PUBLISH', ARGV[8], ARGV[9]) end
  redis.call('HINCRBY', KEYS[1], 'queued', 1)
  local entry = redis.call('XADD', KEYS[4], '*', id,
    quantity .. ' ' .. #buyer .. ' ' .. #key .. ' ' .. #node .. ' ' .. buyer .. key .. node .. print)
  local ms = string.match(entry, '^%d+')
  redis.call('HSET', KEYS[2], id, quantity .. ' ' .. ms .. ' ' .. buyer)
  redis.call('HINCRBY', KEYS[3], buyer, quantity)
  redis.call('HINCRBY', KEYS[1], 'granted', 1)
  if key ~= '' then
    redis.call('HSET', KEYS[5], #buyer .. ':' .. buyer .. '/' .. key, id .. ' ' .. print)
    redis.call('EXPIRE', KEYS[5], ARGV[7])
  end
  return tonumber(ms)
end
