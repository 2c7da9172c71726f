-- Ack: removes entries from the queue once the database has decided on their orders.
-- It also forgets the idempotency keys of these orders, because the database has them,
-- and releases the holds of orders that hold no units after all (a second order with a
-- known key, an order that was closed in the meantime).
--
-- An entry is removed only if it still contains exactly the orders that were decided
-- on. A promoted replica may issue a stream id a second time, and an order that left
-- the queue without a decision would be lost. Therefore the script needs no epoch: a
-- decision stays valid, also if the gate has been replaced.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 keys
-- ARGV  1 number of entries
--       then for each entry, in the queue's order:
--       entry id, its order ids in its order with a space between
--       then the order ids whose holds are to be released
-- Returns the number of entries that are left. After 0, the call that queues the next
-- order wakes the keeper.
local last = 1 + 2 * tonumber(ARGV[1])
for i = last + 1, #ARGV do
  release_units(KEYS[1], KEYS[2], KEYS[3], ARGV[i])
end

local queued = {} -- entry id → its fields: 'epoch' and the epoch, then each order's id and the rest (reserve.lua)
for _, entry in ipairs(redis.call('XRANGE', KEYS[4], ARGV[2], ARGV[last - 1])) do
  queued[entry[1]] = entry[2]
end
local done, orders = {}, 0
local names = {} -- fields of the keys' hash
for i = 2, last, 2 do
  local fields, ids = queued[ARGV[i]] or {}, {}
  for n = 3, #fields, 2 do ids[#ids + 1] = fields[n] end
  if #ids > 0 and table.concat(ids, ' ') == ARGV[i + 1] then
    done[#done + 1] = ARGV[i]
    orders = orders + #ids
    for n = 3, #fields, 2 do
      local rest = fields[n + 1] -- as reserve.lua writes it
      local key, name, buyer, at = string.match(rest, '^%d+ (%d+) %d+ ()(%d+):()')
      if key and key ~= '0' then names[#names + 1] = string.sub(rest, name, at + buyer + key) end
    end
  end
end
if orders == 0 then return redis.call('XLEN', KEYS[4]) end
redis.call('XDEL', KEYS[4], unpack(done))
redis.call('HINCRBY', KEYS[1], 'queued', -orders)
if #names > 0 then redis.call('HDEL', KEYS[5], unpack(names)) end
return redis.call('XLEN', KEYS[4])
