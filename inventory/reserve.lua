-- Reserve decides on a batch of orders for one SKU, one order after the other. Each
-- order gets all of its units or none. Accepted orders enter the queue, from which the
-- keeper writes them to the database.
--
-- KEYS  1 sale  2 holds  3 buyers  4 queue  5 keys (internal/keys)
-- ARGV  1 deadline of the call, in ms since 1970 on Redis's clock
--       2 largest number of queued orders
--       3 channel that wakes the keeper  4 message for that channel
--       5 epoch and 6 `granted` of the gate, as the node last read them
--       then for each request: order id, buyer, quantity, idempotency key or '',
--       fingerprint of the body, node that waits for the order
--
-- Returns {epoch, now} if the call is late. Nothing has changed then, and the node sends
-- the call again with a deadline computed from `now`. Otherwise the script returns
-- {epoch, now, available, granted, outcome…}, with one outcome for each request:
--   epoch      epoch of the gate, 0 without a gate
--   now        Redis's clock, in ms since 1970
--   available  units left, or nil if the gate is missing, shut or stale, or if the sale
--              is outside its time window. nil does not mean that the sale is sold out.
--   granted    number of orders that the gate has accepted since it was built
--   outcome    "id"   replay: the queued order with this id has the same key
--              n > 0  accepted at n, in ms since 1970. A request that is sent again gets
--                     the time of its first acceptance.
--              n < 0  refused:
--                      -1 no gate  -2 gate is being rebuilt  -3 queue is full
--                      -4 malformed: no order id, an order id with a space, no buyer,
--                         or a quantity that is not a whole number above 0
--                      -5 stale gate: Redis may have lost orders (replid.go)
--                     -20 not open yet  -21 closed  -22 buyer's limit  -23 sold out
--                     -24 key used for another body
--                     -25 cooling down: released units are on sale soon (cooldown.lua)
--                     The code is 100 lower (-122 for -22) if the buyer has had an
--                     order of this SKU.
--
-- The script decides on all requests before it writes. Therefore a malformed request
-- cannot leave the batch half written. Reads and most writes are one command for the
-- whole batch.
--
-- If an answer is lost, the node sends the batch again. The second call finds the holds
-- of the first call and takes no more units. If the network delays a batch, another node
-- may refuse the same requests in the meantime. Therefore a call does nothing after its
-- deadline.
--
-- Orders share entries of the queue, because one XADD for each order took a third of
-- this script's time. The field `queued` counts orders, not entries. ack.lua subtracts
-- the orders that it removes.
local call = redis.call -- a local name saves a table lookup for each call
local FIELDS = 6 -- arguments of one request
local FIRST = 7
local ENTRY = 125 -- largest number of orders in an entry; the keeper commits four full entries at once
local MAX_AHEAD = 1000 -- longest time from now to a deadline, ms: maxAhead in reserve.go
local requests = (#ARGV - FIRST + 1) / FIELDS

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
-- A deadline too far ahead was computed before Redis's clock was set back.
local deadline = tonumber(ARGV[1])
if requests > 0 and (now > deadline or deadline > now + MAX_AHEAD) then return { epoch, now } end

-- Within an epoch, `granted` never decreases. If the node has read a higher value, Redis
-- has lost writes without a new replication id. The gate is then marked stale for all
-- nodes until it is rebuilt.
if epoch == tonumber(ARGV[5]) and granted < tonumber(ARGV[6]) and built_on ~= '?' then
  built_on = '?'
  call('HSET', KEYS[1], 'built_on', built_on)
end
local id = built_on ~= '' and built_on ~= '?' and replid() or ''
-- install.lua sets the field ''. If it is missing, Redis has lost the buyers' hash.
if built_on == '?' or id ~= '' and id ~= built_on or call('HEXISTS', KEYS[3], '') == 0 then
  return refuse_all(-5)
end

local window = 0
if now < tonumber(sale[3]) then window = -20 elseif now >= tonumber(sale[4]) then window = -21 end
local per_buyer, available = tonumber(sale[5]), tonumber(sale[6])
local cooling_down = is_cooling_down(now, sale[10])
local queue_room = tonumber(ARGV[2]) - tonumber(sale[8])
if window == 0 then out[3] = available end
if requests == 0 then return out end

local ids, buyers = {}, {}
local scoped = {} -- buyer and key in one string that begins with the buyer's length
for i = 1, requests do
  local at = FIRST + (i - 1) * FIELDS
  local buyer = ARGV[at + 1]
  ids[i], buyers[i], scoped[i] = ARGV[at], buyer, #buyer .. ':' .. buyer .. '/' .. ARGV[at + 3]
end
local holds = call('HMGET', KEYS[2], unpack(ids))
local held_units = call('HMGET', KEYS[3], unpack(buyers))
local known_keys = call('HMGET', KEYS[5], unpack(scoped)) -- nil for a request without a key

local units = {}    -- buyer → units held or paid, with the requests decided so far
local made = {}     -- scoped key → "id fingerprint" of an order accepted in this batch
local fresh = {}    -- order id → number of the request that was accepted with this id
local repeats = {}  -- request number → number of the earlier request with the same order id
local accepted = {} -- numbers of the accepted requests
local taken = 0

-- first_accepted(i, id) returns the time at which a repeated request was first accepted,
-- or now if the order has no hold.
local function first_accepted(i, id)
  repeats[i] = fresh[id]
  return holds[i] and tonumber(string.match(holds[i], '^%d+ (%d+)')) or now
end

-- Replays come first: neither the window nor a limit may refuse an accepted order.
for i = 1, requests do
  local at = FIRST + (i - 1) * FIELDS
  local id, buyer, quantity, key, fingerprint = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3], ARGV[at + 4]
  local field = key ~= '' and scoped[i]
  local earlier = field and (made[field] or known_keys[i])
  if units[buyer] == nil and held_units[i] then units[buyer] = tonumber(held_units[i]) end
  local knows_buyer, held = units[buyer] ~= nil and buyer ~= '', units[buyer] or 0

  local outcome
  if id == '' or string.find(id, ' ', 1, true) or buyer == ''
    or not quantity or quantity < 1 or quantity ~= math.floor(quantity) then
    outcome = -4
  elseif earlier then
    local first, body = string.match(earlier, '^([^ ]+) (.*)$')
    if body ~= fingerprint then outcome = -24
    elseif first ~= id then outcome = first
    else outcome = first_accepted(i, id) end -- the same request, sent again
  elseif holds[i] or fresh[id] then
    outcome = first_accepted(i, id)
  elseif window ~= 0 then
    outcome = window
  elseif held + quantity > per_buyer then
    outcome = -22
  elseif quantity > available - taken then
    outcome = -23
  elseif cooling_down then
    outcome = -25
  elseif #accepted >= queue_room then
    outcome = -3
  else
    taken = taken + quantity
    units[buyer] = held + quantity
    fresh[id] = i
    if field then made[field] = id .. ' ' .. fingerprint end
    accepted[#accepted + 1] = i
    outcome = now
  end
  if knows_buyer and type(outcome) == 'number' and outcome < 0 then outcome = outcome - 100 end
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
  local entry = { 'epoch', epoch } -- the database commits these orders only in this epoch
  for n = from, to do
    local i = accepted[n]
    local at = FIRST + (i - 1) * FIELDS
    local id, _, quantity, key, fingerprint, node = unpack(ARGV, at, at + FIELDS - 1)
    entry[#entry + 1] = id
    -- queue.go decodes this value. It is one value because each further value costs
    -- Redis and the keeper time.
    entry[#entry + 1] = quantity .. ' ' .. #key .. ' ' .. #node .. ' ' .. scoped[i] .. node .. fingerprint
  end
  local ms = string.match(call('XADD', KEYS[4], '*', unpack(entry)), '^%d+') -- acceptance time, from the stream id
  for n = from, to do
    local i = accepted[n]
    local buyer, quantity = buyers[i], ARGV[FIRST + (i - 1) * FIELDS + 2]
    out[i + 4] = tonumber(ms)
    new_holds[2 * n - 1], new_holds[2 * n] = ids[i], quantity .. ' ' .. ms .. ' ' .. buyer
    new_counts[2 * n - 1], new_counts[2 * n] = buyer, units[buyer]
  end
end
for i, before in pairs(repeats) do out[i + 4] = out[before + 4] end
call('HSET', KEYS[2], unpack(new_holds))
call('HSET', KEYS[3], unpack(new_counts))

-- The gate remembers the keys until the database has them (ack.lua).
local new_keys = {}
for name, value in pairs(made) do
  new_keys[#new_keys + 1] = name
  new_keys[#new_keys + 1] = value
end
if #new_keys > 0 then call('HSET', KEYS[5], unpack(new_keys)) end
-- The keeper reads until the queue is empty, so only an empty queue needs a message. With
-- pcall, orders are accepted even if PUBLISH is refused, and the keeper finds them later.
if was_empty then redis.pcall('PUBLISH', ARGV[3], ARGV[4]) end
return out
