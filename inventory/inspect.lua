-- Inspect: the state of the gate at one instant. Changes nothing. A queue that is
-- longer than the caller asks for is not read, because that would keep Redis busy for
-- longer than a batch of orders does.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
-- ARGV  1 most orders of the queue that are read
--       2 number of order ids, then these ids, then buyers, both to be looked up
-- Returns {the fields of the sale, as summaryFields in inspect.go names them,
--          number of holds, number of buyers,
--          the entries of the queue, or false if there are too many,
--          {for each order id its hold or nil}, {for each buyer its units or nil}};
--         {} if there is no gate.
local call = redis.call
local sale = call('HMGET', KEYS[1], 'state', 'epoch', 'available', 'total', 'per_buyer', 'opens_at', 'closes_at', 'queued', 'granted', 'built_on')
if not sale[1] then return {} end

local MOST, ENTRY = tonumber(ARGV[1]), 125 -- the orders of a full entry, as in reserve.lua
local entries = call('XLEN', KEYS[4])
-- Two bounds of how many orders there are, because the count may be wrong.
local queue = false
if entries <= MOST and math.min(entries * ENTRY, tonumber(sale[8] or '0')) <= MOST then
  queue = call('XRANGE', KEYS[4], '-', '+')
end

local buyers = call('HLEN', KEYS[3]) - call('HEXISTS', KEYS[3], '') -- without the marker of install.lua
local n = tonumber(ARGV[2])
local holds, units = {}, {}
for i = 3, 2 + n do holds[#holds + 1] = call('HGET', KEYS[2], ARGV[i]) end
for i = 3 + n, #ARGV do units[#units + 1] = call('HGET', KEYS[3], ARGV[i]) end
return { sale, call('HLEN', KEYS[2]), buyers, queue, holds, units }
