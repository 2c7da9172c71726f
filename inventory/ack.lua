-- Ack removes entries from the queue after the database has decided on their orders. It
-- also removes the idempotency keys of these orders, because a replay finds the row.
-- It releases the holds of orders that the database refused, such as a second order with a
-- known key.
--
-- An entry is removed only if it contains exactly the orders that were decided on. A
-- promoted replica may issue a stream id twice, and otherwise an order without a decision
-- would be lost. A decision stays valid after the gate was replaced, so this script
-- checks no epoch.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 keys
-- ARGV  1 number of entries
--       then for each entry, in the order of the queue: entry id, order ids in the
--       order of the entry, separated by spaces
--       then the ids of the orders whose holds are released
-- Returns the number of entries that are left. After 0, the next order wakes the keeper.
local last = 1 + 2 * tonumber(ARGV[1])
for i = last + 1, #ARGV do
  release_units(KEYS[1], KEYS[2], KEYS[3], ARGV[i])
end

local queued = {} -- entry id → its fields, as reserve.lua writes them
for _, entry in ipairs(redis.call('XRANGE', KEYS[4], ARGV[2], ARGV[last - 1])) do
  queued[entry[1]] = entry[2]
end
local done, orders = {}, 0
local names = {} -- fields to remove from the hash of keys
for i = 2, last, 2 do
  local fields, ids = queued[ARGV[i]] or {}, {}
  for n = 3, #fields, 2 do ids[#ids + 1] = fields[n] end
  if #ids > 0 and table.concat(ids, ' ') == ARGV[i + 1] then
    done[#done + 1] = ARGV[i]
    orders = orders + #ids
    for n = 3, #fields, 2 do
      local order = fields[n + 1]
      local key, name, buyer, at = string.match(order, '^%d+ (%d+) %d+ ()(%d+):()')
      if key and key ~= '0' then names[#names + 1] = string.sub(order, name, at + buyer + key) end
    end
  end
end
if orders == 0 then return redis.call('XLEN', KEYS[4]) end
redis.call('XDEL', KEYS[4], unpack(done))
redis.call('HINCRBY', KEYS[1], 'queued', -orders)
if #names > 0 then redis.call('HDEL', KEYS[5], unpack(names)) end
return redis.call('XLEN', KEYS[4])
