-- Inspect returns the state of the gate at one instant and changes nothing. A queue that
-- is longer than the caller asks for is not read, because Redis would be busy for longer
-- than with a batch of orders.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
-- ARGV  1 length of the longest queue that is read, in orders
--       2 number of order ids, then these ids, then buyers
-- Returns {} if there is no gate. Otherwise returns
--         {the fields summaryFields of the sale (inspect.go),
--          number of holds, number of buyers,
--          the entries of the queue, or false if the queue is too long,
--          {for each order id, its hold or nil}, {for each buyer, the units or nil}}
local call = redis.call
local sale = call('HMGET', KEYS[1], 'state', 'epoch', 'available', 'total', 'per_buyer', 'opens_at', 'closes_at', 'queued', 'granted', 'built_on')
if not sale[1] then return {} end

local LIMIT, ENTRY = tonumber(ARGV[1]), 125 -- the orders of a full entry, as in reserve.lua
local entries = call('XLEN', KEYS[4])
-- The field `queued` may be wrong, so the number of entries is a second bound.
local queue = false
if entries <= LIMIT and math.min(entries * ENTRY, tonumber(sale[8] or '0')) <= LIMIT then
  queue = call('XRANGE', KEYS[4], '-', '+')
end

local buyers = call('HLEN', KEYS[3]) - call('HEXISTS', KEYS[3], '') -- without the marker '' of install.lua
local n = tonumber(ARGV[2])
local holds, units = {}, {}
for i = 3, 2 + n do holds[#holds + 1] = call('HGET', KEYS[2], ARGV[i]) end
for i = 3 + n, #ARGV do units[#units + 1] = call('HGET', KEYS[3], ARGV[i]) end
return { sale, call('HLEN', KEYS[2]), buyers, queue, holds, units }
