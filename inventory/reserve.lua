-- Reserve: decides on a batch of orders for one SKU, one after the other. Each
-- order gets all of its units or none.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 keys
-- ARGV  1 deadline of the call, ms since 1970 on Redis's clock
--       2 bound of the queue, orders
--       3 channel to wake the keeper on  4 message for that channel
--       5 epoch and 6 `granted` of the gate, as the node last saw them
--       then for each request: order id, buyer, quantity, idempotency key or '',
--       fingerprint of the body, node that waits (see sender in reserve.go)
--
-- Returns {epoch, now} if the call is late. The script has then done nothing. The node
--         learns Redis's clock from `now` and sends the call again. Otherwise
--         {epoch, now, available, granted, outcome…}
-- where `now` is the time on Redis's clock, in ms since 1970, and `granted` counts the
-- orders that this gate has ever accepted. available is nil if the gate is missing,
-- shut or stale, or if the sale is outside its window: the node must not conclude
-- "sold out" from it. An outcome is
--         "id"    a replay: the order with that id has the same key and is still queued
--         n > 0   accepted, at n ms since 1970 on Redis's clock
--         n < 0   refused:
--                  -1 no gate, -2 being rebuilt, -3 queue full,
--                  -4 malformed: no order id, or one with a space in it, no
--                     buyer, or a quantity that is not a whole number above 0,
--                  -5 stale gate: it may have forgotten orders (replid.go),
--                 -20 not open, -21 closed, -22 buyer's limit, -23 sold out,
--                 -24 key used for another body,
--                 -25 sold out until units that have just returned may be sold
--                     (cooldown.lua);
--                 100 less (-122 for -22) if the buyer has had an order here
--
-- The script decides first and writes afterwards. Reads and most writes are one
-- call for the whole batch, and a malformed request leaves nothing half written.
-- If a batch is sent twice, because the first answer was lost, the second call finds
-- the holds of the first and takes nothing more. If the network delivers a batch after
-- its deadline, the script does nothing, because the callers may have been refused
-- since.
--
-- Many accepted orders share an entry of the queue: an XADD for each order took a
-- third of this script's time. The bound of the queue counts orders, in the field
-- `queued`, to which this script adds and from which ack.lua subtracts.
local call = redis.call -- one table lookup less per call
local PER = 6
local FIRST = 7
local ENTRY = 125 -- orders in an entry of the queue; four entries make up a keeper's transaction
local LATE = 1000 -- how far ahead a deadline may be, ms: maxLate in reserve.go
local requests = (#ARGV - FIRST + 1) / PER

local sale = call('HMGET', KEYS[1], 'state', 'epoch', 'opens_at', 'closes_at', 'per_buyer', 'available', 'granted',
  'queued', 'built_on', 'resume_at')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local epoch, granted, built_on = tonumber(sale[2] or '0'), tonumber(sale[7] or '0'), sale[9] or ''
local out = { epoch, now, false, granted }
local function refuse_all(code)
  for i = 1, requests do out[i + 4] = code end
  return out
end
if sale[1] ~= 'open' then return refuse_all(sale[1] and -2 or -1) end
-- If the deadline is too far ahead, Redis's clock was set back after the node set it.
local deadline = tonumber(ARGV[1])
if requests > 0 and (now > deadline or deadline > now + LATE) then return { epoch, now } end

-- `granted` never decreases within an epoch. If the node has seen a higher value,
-- Redis has lost writes without a new replication id. Marking the gate makes it
-- stale for all nodes until it is rebuilt.
if epoch == tonumber(ARGV[5]) and granted < tonumber(ARGV[6]) and built_on ~= '?' then
  built_on = '?'
  call('HSET', KEYS[1], 'built_on', built_on)
end
local id = built_on ~= '' and built_on ~= '?' and replid() or ''
-- install.lua sets the marker ''. If it is missing, Redis has lost the buyers' hash.
if built_on == '?' or id ~= '' and id ~= built_on or call('HEXISTS', KEYS[3], '') == 0 then
  return refuse_all(-5)
end

local window = 0
if now < tonumber(sale[3]) then window = -20 elseif now >= tonumber(sale[4]) then window = -21 end
local per_buyer, available = tonumber(sale[5]), tonumber(sale[6])
local cooling_down = is_cooling_down(now, sale[10])
local room = tonumber(ARGV[2]) - tonumber(sale[8])
if window == 0 then out[3] = available end
if requests == 0 then return out end

local ids, buyers = {}, {}
local scoped = {} -- buyer and key in one string that begins with the buyer's length
for i = 1, requests do
  local at = FIRST + (i - 1) * PER
  local buyer = ARGV[at + 1]
  ids[i], buyers[i], scoped[i] = ARGV[at], buyer, #buyer .. ':' .. buyer .. '/' .. ARGV[at + 3]
end
local holds = call('HMGET', KEYS[2], unpack(ids))
local counts = call('HMGET', KEYS[3], unpack(buyers))
local queued = call('HMGET', KEYS[5], unpack(scoped)) -- a request without a key finds nothing

local units = {}    -- buyer → units held, after the requests so far
local made = {}     -- scoped key → "id fingerprint" of an order of this batch
local fresh = {}    -- order id → number of the request that was accepted with it
local again = {}    -- request → number of the earlier request with the same order id
local accepted = {} -- numbers of the accepted requests
local taken = 0

-- seen(i, id): the time at which the order of a repeated request was first
-- accepted, or now if its hold is gone.
local function seen(i, id)
  again[i] = fresh[id]
  return holds[i] and tonumber(string.match(holds[i], '^%d+ (%d+)')) or now
end

for i = 1, requests do
  local at = FIRST + (i - 1) * PER
  local id, buyer, quantity, key, print = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4]
  local name = key ~= '' and scoped[i]
  local earlier = name and (made[name] or queued[i])
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
    else outcome = seen(i, id) end -- the same request, sent again
  elseif holds[i] or fresh[id] then
    outcome = seen(i, id)
  elseif window ~= 0 then
    outcome = window
  elseif held + quantity > per_buyer then
    outcome = -22
  elseif quantity > available - taken then
    outcome = -23
  elseif cooling_down then
    outcome = -25
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
  if known and type(outcome) == 'number' and outcome < 0 then outcome = outcome - 100 end
  out[i + 4] = outcome
end

if #accepted == 0 then return out end

out[3] = call('HINCRBY', KEYS[1], 'available', -taken)
out[4] = call('HINCRBY', KEYS[1], 'granted', #accepted)
call('HINCRBY', KEYS[1], 'queued', #accepted)
local was_empty = call('XLEN', KEYS[4]) == 0
local new_holds, new_counts = {}, {}
for from = 1, #accepted, ENTRY do
  local to = math.min(from + ENTRY - 1, #accepted)
  local entry = { 'epoch', epoch } -- a keeper commits these orders only while the database names this epoch
  for n = from, to do
    local i = accepted[n]
    local at = FIRST + (i - 1) * PER
    local id, _, quantity, key, print, node = unpack(ARGV, at, at + PER - 1)
    entry[#entry + 1] = id
    -- One value, which queue.go takes apart, because each further value costs Redis and
    -- the keeper time.
    entry[#entry + 1] = quantity .. ' ' .. #key .. ' ' .. #node .. ' ' .. scoped[i] .. node .. print
  end
  local ms = string.match(call('XADD', KEYS[4], '*', unpack(entry)), '^%d+') -- the stream id is the acceptance time of these orders
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

-- The gate remembers the keys until ack.lua reports that the database has them.
local new_keys = {}
for name, value in pairs(made) do
  new_keys[#new_keys + 1] = name
  new_keys[#new_keys + 1] = value
end
if #new_keys > 0 then call('HSET', KEYS[5], unpack(new_keys)) end
-- A keeper reads until the queue is empty, so only an empty queue needs a message.
if was_empty then call('PUBLISH', ARGV[3], ARGV[4]) end
return out
