-- Tally: what a keeper compares with the database, at one instant. Changes
-- nothing. A queue that is too long is not read: doing so would keep Redis busy
-- for longer than a batch of orders does.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
-- ARGV  1 most orders in the queue that are read
--       2 how many order ids  then order ids  then buyers, both to be looked up
-- Returns {state, epoch, total, available, holds, queued as counted,
--          the queue's entries, or false where they are too many,
--          {for each order id its hold or nil}, {for each buyer its units or nil}};
--         {} where there is no gate.
local call = redis.call
local sale = call('HMGET', KEYS[1], 'state', 'epoch', 'total', 'available', 'queued')
if not sale[1] then return {} end

local MOST, ENTRY = tonumber(ARGV[1]), 125 -- the orders of a full entry, as in reserve.lua
local entries = call('XLEN', KEYS[4])
-- Two bounds of how many orders there are. The count may be what is wrong.
local queue = false
if entries <= MOST and math.min(entries * ENTRY, tonumber(sale[5] or '0')) <= MOST then
  queue = call('XRANGE', KEYS[4], '-', '+')
end

local n = tonumber(ARGV[2])
local holds, units = {}, {}
for i = 3, 2 + n do holds[#holds + 1] = call('HGET', KEYS[2], ARGV[i]) end
for i = 3 + n, #ARGV do units[#units + 1] = call('HGET', KEYS[3], ARGV[i]) end
return { sale[1], sale[2], sale[3], sale[4], call('HLEN', KEYS[2]), sale[5], queue, holds, units }
