-- Reserve: a batch of orders for one SKU, each all or nothing, as if they had
-- come one after the other.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 keys
-- ARGV  1 the epoch the node believes in
--       2 until when the call is good, ms since 1970 on this clock
--       3 bound of the queue, orders
--       4 channel to wake the keeper on  5 what to say there
--       6 how many orders this gate had let in under that epoch, when the node
--         last heard of it
--       then for each request: order id, buyer, quantity, idempotency key or '',
--       fingerprint of the body, node that waits (and maybe more: see sender in
--       reserve.go)
--
-- Returns {epoch, now}              the node believes in another epoch, or the
--                                   call is late: nothing was done, ask again
--         {epoch, now, available, granted, outcome…}
-- where now is this clock and granted counts the orders ever let in. All but now
-- are 0 unless the gate is open, not stale, and the sale is on: else "sold out"
-- would be a wrong conclusion (an epoch of 0 says that already). An outcome is
--         "id"    a replay: that order, still in the queue, has the same key
--         n > 0   reserved, at n ms since 1970 on this clock
--         n < 0   refused, and no answer: -1 no gate, -2 being rebuilt (or just
--                 rebuilt, see rest.lua), -3 queue full,
--                 -4 malformed: no order id, or one with a space in it, no
--                    buyer, or a quantity that is not a whole number above 0,
--                 -5 stale: the gate was built on another Redis (replid.go), has
--                    let fewer orders in than before, or the buyers are gone, so
--                    no answer is certain;
--                 or refused by an answer:
--                 -20 not open, -21 closed, -22 buyer's limit, -23 sold out,
--                 -24 key used for another body,
--                 -25 resting: sold out until the units that came back are on
--                    sale (rest.lua);
--                 each 100 less (-103 for -3) when the buyer has had an order here
--
-- Decide first, write after: reads and most writes are one call for the whole
-- batch, and nothing stands half written when a request is found malformed.
-- A batch that is sent twice (a lost answer) finds its own holds and takes
-- nothing more. One that the network delivers late does nothing: its callers may
-- have been told no since, by another node.
--
-- What is let in goes into the queue many orders to an entry: an XADD for each
-- order was a third of this script's time. The bound counts orders, in
-- `queued`: reserve.lua adds to it, ack.lua takes off.
local call = redis.call -- a look-up less for each of many calls
local PER = 6
local FIRST = 7
local ENTRY = 125 -- orders in an entry of the queue: four of them make up a keeper's transaction
local requests = (#ARGV - FIRST + 1) / PER

local sale = call('HMGET', KEYS[1], 'state', 'epoch', 'opens_at', 'closes_at', 'per_buyer', 'available', 'granted',
  'queued', 'built_on', 'resume_at')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out = { 0, now, 0, 0 }
if sale[1] ~= 'open' then
  for i = 1, requests do out[i + 4] = sale[1] and -2 or -1 end
  return out
end
local epoch = tonumber(sale[2])
if requests > 0 and (tonumber(ARGV[1]) ~= epoch or now > tonumber(ARGV[2])) then
  return { epoch, now }
end

local window = 0
if now < tonumber(sale[3]) then window = -20 elseif now >= tonumber(sale[4]) then window = -21 end
local per_buyer, available = tonumber(sale[5]), tonumber(sale[6])
local built_on = sale[9] or ''
-- A count that only grows has gone back: for all nodes, this gate is built on no
-- Redis that there is, until it is rebuilt.
if epoch == tonumber(ARGV[1]) and tonumber(sale[7]) < tonumber(ARGV[6]) and built_on ~= '?' then
  built_on = '?'
  call('HSET', KEYS[1], 'built_on', built_on)
end
local stale = built_on == '?'
-- install.lua sets the field ''. Where it is missing, Redis has lost the buyers'
-- hash alone, even if buyers were let in since.
if call('HEXISTS', KEYS[3], '') == 0 then stale = true end
-- Only a no depends on which Redis this is. A node could not tell: it may have been
-- connected to this one as a replica, before it was promoted.
local asked = built_on == ''
local function is_stale()
  if not stale and not asked then
    asked = true
    local id = replid()
    stale = id ~= '' and id ~= built_on
  end
  return stale
end
if available <= 0 then is_stale() end -- nodes remember that nothing is left
local resume_at = tonumber(sale[10] or '0')
local resting = now < math.abs(resume_at) -- rest.lua
if window == 0 and not stale then out = { epoch, now, available, tonumber(sale[7]) } end
local room = tonumber(ARGV[3]) - tonumber(sale[8])

if requests == 0 then return out end -- only asked how things are

local ids, buyers = {}, {}
local scoped = {} -- the buyer and the key, told apart by the buyer's length
local names = {} -- those of the requests with a key
for i = 1, requests do
  local at = FIRST + (i - 1) * PER
  local buyer, key = ARGV[at + 1], ARGV[at + 3]
  ids[i], buyers[i], scoped[i] = ARGV[at], buyer, #buyer .. ':' .. buyer .. '/' .. key
  if key ~= '' then names[#names + 1] = scoped[i] end
end
local holds = call('HMGET', KEYS[2], unpack(ids))
local counts = call('HMGET', KEYS[3], unpack(buyers))
local queued = #names > 0 and call('HMGET', KEYS[5], unpack(names)) or {}

local units = {}    -- buyer → units held, as this batch leaves them
local made = {}     -- buyer and key → "id fingerprint", made by this batch
local fresh = {}    -- order id → the request of this batch that was let in with it
local again = {}    -- request → the one before it with the same order id
local accepted = {} -- the requests that are let in, by number
local taken, keyed = 0, 0

-- seen: when the order of a request that is here again was first reserved; now, if
-- its hold is gone.
local function seen(i, id)
  again[i] = fresh[id]
  return holds[i] and tonumber(string.match(holds[i], '^%d+ (%d+)')) or now
end

for i = 1, requests do
  local at = FIRST + (i - 1) * PER
  local id, buyer, quantity, key, print = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4]
  local name, earlier
  if key ~= '' then
    keyed = keyed + 1
    name = scoped[i]
    earlier = made[name] or queued[keyed]
  end
  if units[buyer] == nil and counts[i] then units[buyer] = tonumber(counts[i]) end
  local known, held = units[buyer] ~= nil and buyer ~= '', units[buyer] or 0

  local outcome
  if id == '' or string.find(id, ' ', 1, true) or buyer == ''
    or not quantity or quantity < 1 or quantity ~= math.floor(quantity) then
    outcome = -4
  elseif earlier then
    local first, body = string.match(earlier, '^([^ ]+) (.*)$')
    if body ~= print then outcome = -24
    elseif first ~= id then outcome = first
    else outcome = seen(i, id) end -- this very request, sent again
  elseif holds[i] or fresh[id] then
    outcome = seen(i, id)
  elseif window ~= 0 then
    outcome = window
  elseif held + quantity > per_buyer then
    outcome = -22
  elseif quantity > available - taken then
    outcome = -23
  elseif resting then
    outcome = resume_at < 0 and -2 or -25
  elseif #accepted >= room then
    outcome = -3
  else
    taken = taken + quantity
    units[buyer] = held + quantity
    fresh[id] = i
    if name then made[name] = id .. ' ' .. print end
    accepted[#accepted + 1] = i
    outcome = now
  end
  if type(outcome) == 'number' and outcome < 0 then
    if outcome <= -20 and is_stale() then outcome = -5 end
    if known then outcome = outcome - 100 end
  end
  out[i + 4] = outcome
end

if #accepted == 0 then return out end

out[3] = call('HINCRBY', KEYS[1], 'available', -taken)
out[4] = call('HINCRBY', KEYS[1], 'granted', #accepted)
if out[3] <= 0 and is_stale() then out[1] = 0 end
call('HINCRBY', KEYS[1], 'queued', #accepted)
local was_empty = call('XLEN', KEYS[4]) == 0
local new_holds, new_counts = {}, {}
for from = 1, #accepted, ENTRY do
  local to = math.min(from + ENTRY - 1, #accepted)
  local entry = {}
  for n = from, to do
    local i = accepted[n]
    local at = FIRST + (i - 1) * PER
    local id, _, quantity, key, print, node = unpack(ARGV, at, at + PER - 1)
    -- One field, which the keeper takes apart (queue.go): every further one costs Redis and the keeper.
    entry[2 * (n - from) + 1] = id
    entry[2 * (n - from) + 2] = quantity .. ' ' .. #key .. ' ' .. #node .. ' ' .. scoped[i] .. node .. print
  end
  local ms = string.match(call('XADD', KEYS[4], '*', unpack(entry)), '^%d+') -- its orders' time from now on, everywhere
  for n = from, to do
    local i = accepted[n]
    local buyer, quantity = buyers[i], ARGV[FIRST + (i - 1) * PER + 2]
    out[i + 4] = tonumber(ms)
    new_holds[2 * n - 1], new_holds[2 * n] = ids[i], quantity .. ' ' .. ms .. ' ' .. buyer
    new_counts[2 * n - 1], new_counts[2 * n] = buyer, units[buyer]
  end
end
for i, before in pairs(again) do out[i + 4] = out[before + 4] end
call('HSET', KEYS[2], unpack(new_holds))
call('HSET', KEYS[3], unpack(new_counts))

-- Until these orders are in the database, the gate alone knows their keys.
local new_keys = {}
for name, value in pairs(made) do
  new_keys[#new_keys + 1] = name
  new_keys[#new_keys + 1] = value
end
if #new_keys > 0 then call('HSET', KEYS[5], unpack(new_keys)) end
-- The keeper reads until the queue is empty, so it needs a call only then.
if was_empty then call('PUBLISH', ARGV[4], ARGV[5]) end
return out
