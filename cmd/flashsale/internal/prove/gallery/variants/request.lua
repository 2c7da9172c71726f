-- Put before the scripts that take units: what they do right.
--
-- KEYS  1 stock  2 buyers  3 holds  4 keys  5 queue
-- ARGV  1 order id  2 buyer  3 idempotency key  4 quantity  5 buyer's limit  6 the order
-- Outcomes: the order's id; the id of the buyer's order under this key;
-- 'sold_out'; 'buyer_limit'.
local id, buyer, key, quantity = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- earlier: the id of the order under this key, or false.
local function earlier()
  return redis.call('HGET', KEYS[4], buyer .. '/' .. key)
end

local function over_limit()
  return tonumber(redis.call('HGET', KEYS[2], buyer) or '0') + quantity > tonumber(ARGV[5])
end

-- record: the units have been taken. Returns the order's id.
local function record()
  redis.call('HINCRBY', KEYS[2], buyer, quantity)
  redis.call('HSET', KEYS[3], id, quantity .. ' ' .. buyer)
  redis.call('HSET', KEYS[4], buyer .. '/' .. key, id)
  redis.call('HSET', KEYS[5], id, ARGV[6])
  return id
end
