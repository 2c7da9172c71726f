-- Reserve: a batch of orders for one SKU, each all or nothing, as if they had
-- come one after the other.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 replays  6 older replays
-- ARGV  1 the epoch the node believes in, 0 for "whatever it is"
--       2 bound of the queue, orders  3 for how long keys are remembered, seconds
--       4 channel to wake the keeper on  5 what to say there
--       then for each request: order id, buyer, quantity, idempotency key or '',
--       fingerprint of the body, node that waits (and maybe more: see sender in
--       reserve.go)
--
-- Returns {epoch}                   the node's epoch is old: nothing was done
--         {epoch, available, granted, outcome…}
-- where granted counts the orders ever let in, all three are 0 unless the gate
-- is open (a shut one may have forgotten much) and the sale is on (before and
-- after, "sold out" is not the answer), and an outcome is
--         "id"    a replay: that order was made under the same key
--         n > 0   reserved, at n ms since 1970 on this clock
--         n < 0   refused: -1 no gate, -2 being rebuilt, -3 queue full,
--                 -4 not open, -5 closed, -6 buyer's limit, -7 sold out,
--                 -8 key used for another body,
--                 -9 malformed: no order id, or one with a space in it, no
--                    buyer, or a quantity that is not a whole number above 0;
--                 10 less (-17 for -7) when the buyer has had an order here
--
-- Decide first, write after: reads and most writes are one call for the whole
-- batch, and nothing stands half written when a request is found malformed.
-- A batch that is sent twice (a lost answer) finds its own holds and takes
-- nothing more.
--
-- What is let in goes into the queue many orders to an entry: an XADD for each
-- order was a third of this script's time. The bound counts orders, in
-- `queued`: reserve.lua adds to it, settle.lua takes off.
local call = redis.call -- a look-up less for each of many calls
local PER = 6
local FIRST = 6
local ENTRY = 125 -- orders in an entry of the queue: four of them make up a keeper's transaction
local requests = (#ARGV - FIRST + 1) / PER

local sale = call('HMGET', KEYS[1], 'state', 'epoch', 'opens_at', 'closes_at', 'per_buyer', 'available', 'granted',
  'queued')
local out = { 0, 0, 0 }
if sale[1] ~= 'open' then
  for i = 1, requests do out[i + 3] = sale[1] and -2 or -1 end
  return out
end
local epoch = tonumber(sale[2])
if ARGV[1] ~= '0' and tonumber(ARGV[1]) ~= epoch then
  return { epoch }
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window = 0
if now < tonumber(sale[3]) then window = -4 elseif now >= tonumber(sale[4]) then window = -5 end
local per_buyer, available = tonumber(sale[5]), tonumber(sale[6])
if window == 0 then out = { epoch, available, tonumber(sale[7]) } end
local room = tonumber(ARGV[2]) - tonumber(sale[8])

if requests == 0 then return out end -- only asked how things are

local ids, buyers = {}, {}
local names = {} -- of the requests with a key: the buyer and the key, told apart by the buyer's length
for i = 1, requests do
  local at = FIRST + (i - 1) * PER
  local buyer, key = ARGV[at + 1], ARGV[at + 3]
  ids[i], buyers[i] = ARGV[at], buyer
  if key ~= '' then names[#names + 1] = #buyer .. ':' .. buyer .. '/' .. key end
end
local holds = call('HMGET', KEYS[2], unpack(ids))
local counts = call('HMGET', KEYS[3], unpack(buyers))
local replays, older = {}, {}
if #names > 0 then
  replays = call('HMGET', KEYS[5], 'since', unpack(names))
  if call('EXISTS', KEYS[6]) == 1 then older = call('HMGET', KEYS[6], unpack(names)) end
end

local units = {}    -- buyer → units held, as this batch leaves them
local made = {}     -- buyer and key → "id fingerprint", made by this batch
local fresh = {}    -- order id → the request of this batch that was let in with it
local again = {}    -- request → the one before it with the same order id
local accepted = {} -- the requests that are let in, by number
local taken, keyed = 0, 0

-- seen: when the order of a request that is here again was reserved; now,
-- where its hold has gone meanwhile.
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
    name = names[keyed]
    earlier = made[name] or replays[keyed + 1] or older[keyed]
  end
  if units[buyer] == nil and counts[i] then units[buyer] = tonumber(counts[i]) end
  local known, held = units[buyer] ~= nil, units[buyer] or 0

  local outcome
  if id == '' or string.find(id, ' ', 1, true) or buyer == ''
    or not quantity or quantity < 1 or quantity ~= math.floor(quantity) then
    outcome = -9
  elseif earlier then
    local first, body = string.match(earlier, '^([^ ]+) (.*)$')
    if body ~= print then outcome = -8
    elseif first ~= id then outcome = first
    else outcome = seen(i, id) end -- this very request, sent again
  elseif holds[i] or fresh[id] then
    outcome = seen(i, id)
  elseif window ~= 0 then
    outcome = window
  elseif held + quantity > per_buyer then
    outcome = -6
  elseif quantity > available - taken then
    outcome = -7
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
  if type(outcome) == 'number' and outcome < 0 and known then outcome = outcome - 10 end
  out[i + 3] = outcome
end

if #accepted == 0 then return out end

out[2] = call('HINCRBY', KEYS[1], 'available', -taken)
out[3] = call('HINCRBY', KEYS[1], 'granted', #accepted)
call('HINCRBY', KEYS[1], 'queued', #accepted)
local was_empty = call('XLEN', KEYS[4]) == 0
local new_holds, new_counts = {}, {}
for from = 1, #accepted, ENTRY do
  local to = math.min(from + ENTRY - 1, #accepted)
  local entry = {}
  for n = from, to do
    local at = FIRST + (accepted[n] - 1) * PER
    local id, buyer, quantity, key, print, node = unpack(ARGV, at, at + PER - 1)
    -- One field, which the keeper takes apart (queue.go): every further one costs Redis and the keeper.
    entry[2 * (n - from) + 1] = id
    entry[2 * (n - from) + 2] = quantity .. ' ' .. #buyer .. ' ' .. #key .. ' ' .. #node .. ' ' .. buyer .. key .. node .. print
  end
  local ms = string.match(call('XADD', KEYS[4], '*', unpack(entry)), '^%d+') -- its orders' time from now on, everywhere
  for n = from, to do
    local i = accepted[n]
    local buyer, quantity = buyers[i], ARGV[FIRST + (i - 1) * PER + 2]
    out[i + 3] = tonumber(ms)
    new_holds[2 * n - 1], new_holds[2 * n] = ids[i], quantity .. ' ' .. ms .. ' ' .. buyer
    new_counts[2 * n - 1], new_counts[2 * n] = buyer, units[buyer]
  end
end
for i, before in pairs(again) do out[i + 3] = out[before + 3] end
call('HSET', KEYS[2], unpack(new_holds))
call('HSET', KEYS[3], unpack(new_counts))

-- Replays in two hashes: the one in use is put aside after the time that keys
-- are remembered, and the one put aside before it goes. So a key is there for
-- once to twice that time, at two thirds of what a key of its own takes in Redis.
local new_replays = {}
for name, value in pairs(made) do
  new_replays[#new_replays + 1] = name
  new_replays[#new_replays + 1] = value
end
if #new_replays > 0 then
  local life, another = tonumber(ARGV[3]), false
  if now - tonumber(replays[1] or '0') >= life * 1000 then
    another = true
    call('UNLINK', KEYS[6])
    if call('EXISTS', KEYS[5]) == 1 then call('RENAME', KEYS[5], KEYS[6]) end
    call('HSET', KEYS[5], 'since', now)
  end
  call('HSET', KEYS[5], unpack(new_replays))
  if another then call('EXPIRE', KEYS[5], 2 * life) end
end
-- The keeper reads until the queue is empty, so it needs a call only then.
if was_empty then call('PUBLISH', ARGV[4], ARGV[5]) end
return out
