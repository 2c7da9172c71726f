-- Common steps of the scripts that take units. They are concatenated with this file.
--
-- KEYS  1 stock  2 buyers  3 holds  4 keys  5 queue
-- ARGV  1 order id  2 buyer  3 idempotency key  4 quantity  5 buyer's limit  6 the order
-- Returns the order's id, the id of the buyer's earlier order with this key,
-- 'sold_out' or 'buyer_limit'.
local id, buyer, key, quantity = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- earlier returns the id of the buyer's order with this key, or false.
local function earlier()
  return redis.call('HGET', KEYS[4], buyer .. '/' .. key)
end

local function over_limit()
  return tonumber(redis.call('HGET', KEYS[2], buyer) or '0') + quantity > tonumber(ARGV[5])
end

-- record notes an order whose units have been taken, and returns the order's id.
local function record()
  redis.call('HINCRBY', KEYS[2], buyer, quantity)
  redis.call('HSET', KEYS[3], id, quantity .. ' ' .. buyer)
  redis.call('HSET', KEYS[4], buyer .. '/' .. key, id)
  redis.call('HSET', KEYS[5], id, ARGV[6])
  return id
end
