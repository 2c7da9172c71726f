-- Ack: takes entries off the queue once the database has judged their
-- orders, forgets the idempotency keys of those orders, which the database knows
-- by now, and gives back the holds of those that turned out to hold nothing (a
-- second order under a known key, an order closed meanwhile).
--
-- An entry is taken off only if it still holds exactly the orders that were
-- judged: a promoted replica may hand out a stream id a second time, and an
-- order that left the queue unjudged would be lost. So the script asks for no
-- epoch: what was judged stays true, whatever has become of the gate.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 keys
-- ARGV  1 how many entries
--       then for each entry, in the queue's order:
--       entry id, its order ids in its order with a space between
--       then the order ids whose holds are to be given back
-- Returns how many entries are left. 0: the queue is empty, and whoever puts the
-- next order into it wakes the keeper.
local last = 1 + 2 * tonumber(ARGV[1])
for i = last + 1, #ARGV do
  give_back(KEYS[1], KEYS[2], KEYS[3], ARGV[i])
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
