-- Settle: takes entries off the queue once the database has judged their
-- orders, and gives back the holds of those orders that turned out to hold
-- nothing (a second order under a known key, an order closed meanwhile).
--
-- An entry is taken off only if it still holds exactly the orders that were
-- judged: a promoted replica may hand out a stream id a second time, and an
-- order that left the queue unjudged would be lost.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue
-- ARGV  1 fence  2 how many entries
--       then for each entry, in the queue's order:
--       entry id, its order ids in its order with a space between
--       then the order ids whose holds are to be given back
-- Returns how many orders were taken off; error FENCED.
local no = fenced(KEYS[1], ARGV[1])
if no then return no end

local last = 2 + 2 * tonumber(ARGV[2])
for i = last + 1, #ARGV do
  give_back(KEYS[1], KEYS[2], KEYS[3], ARGV[i])
end

local queued, sizes = {}, {} -- entry id → its order ids, and how many
for _, entry in ipairs(redis.call('XRANGE', KEYS[4], ARGV[3], ARGV[last - 1])) do
  local ids = {}
  for n = 1, #entry[2], 2 do ids[#ids + 1] = entry[2][n] end
  queued[entry[1]], sizes[entry[1]] = table.concat(ids, ' '), #ids
end
local done, orders = {}, 0
for i = 3, last, 2 do
  local entry, judged = ARGV[i], ARGV[i + 1]
  if queued[entry] == judged then
    done[#done + 1] = entry
    orders = orders + sizes[entry]
  end
end
if orders == 0 then return 0 end
redis.call('XDEL', KEYS[4], unpack(done))
redis.call('HINCRBY', KEYS[1], 'queued', -orders)
return orders
