-- Takes tokens from buckets for a batch of requests, one after the other: each
-- request takes its cost from all of its buckets or from none.
--
-- KEYS    the buckets' keys (one that is counted by two limits stands twice)
-- ARGV    1. how many limits; per limit: units in a token, units refilled per
--            microsecond, units in a full bucket, and the most units that one
--            can be short of full: more than a full bucket where requests queue
--         2. per key: the index of its limit
--         3. per request until the end: its cost in tokens, the microseconds
--            it would queue (0 where it is now or not at all), how many
--            buckets, their indexes in KEYS. A cost below 0 gives back what was
--            taken; then the second number is when it was.
-- Returns the moment of all of this (microseconds) and five integers per request:
--         1 taken or 0 refused;
--         the bucket that decided, by its place in the request: of those that
--         refuse the one that will for longest, else the one with least left;
--         the whole tokens now in that bucket;
--         when refused, the microseconds until it would allow the same; when
--         taken, those until it is this request's turn, 0 without a queue;
--         the microseconds until that bucket is full again.
-- Fails   only where a write fails (read-only replica, out of memory).
--
-- A key's value is "stamp debt unit": at `stamp` (microseconds) the bucket was
-- `debt` units short of full, `unit` of them to the token. No key: full.
-- Every number is whole and below 2^53, so Lua's doubles hold it exactly.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local keys, args, at = KEYS, ARGV, 0

local function number()
  at = at + 1
  return tonumber(args[at])
end

local limits, limit_of = {}, {}
for i = 1, number() do
  limits[i] = {unit = number(), rate = number(), full = number(), most = number()}
end
for i = 1, #keys do
  limit_of[i] = limits[number()]
end

-- read returns what a key says, refilled up to now.
local function read(key, limit)
  local value = redis.pcall('GET', key)
  if not value then
    return {debt = 0, limit = limit}
  end
  local stamp, debt, unit
  if type(value) == 'string' then
    stamp, debt, unit = string.match(value, '^(%d+) (%d+) (%d+)$')
    stamp, debt, unit = tonumber(stamp), tonumber(debt), tonumber(unit)
  end
  if not (stamp and debt and unit) or unit < 1 then
    -- Not our value: an empty bucket, which errs on the safe side and, being
    -- written back, heals.
    return {debt = limit.full, limit = limit, changed = true}
  end
  if unit ~= limit.unit then
    -- The limit has been changed since: the same tokens in other units.
    debt = math.ceil(debt / unit * limit.unit)
  end
  local state = {debt = math.min(debt, limit.most), limit = limit}
  if now < stamp then
    -- The clock went back (set back, or another master's). Count from here on,
    -- and write that down even when refusing: else the bucket would stand
    -- still until the clock has caught up.
    state.changed = true
  elseif (now - stamp) * limit.rate >= state.debt then
    state.debt = 0
  else
    state.debt = state.debt - (now - stamp) * limit.rate
  end
  return state
end

local states = {}

local function state_of(k)
  local key, limit = keys[k], limit_of[k]
  local state = states[key]
  if not state then
    state = read(key, limit)
    states[key] = state
  elseif state.limit ~= limit then
    -- Two nodes' configurations, or two callers', in one batch.
    state.debt = math.min(math.ceil(state.debt / state.limit.unit * limit.unit), limit.most)
    state.limit = limit
  end
  return state
end

local reply, n = {now}, 1

local function left_in(state)
  return math.max(math.floor((state.limit.full - state.debt) / state.limit.unit), 0)
end

-- still_missing is how much of what was taken at `since` may be given back (below
-- 0, as `units` is): not what has come in since. The bucket may have been full
-- in between, then others have taken that, and it would be given out twice.
local function still_missing(units, since, limit)
  if since > now then
    return 0 -- the clock went back: nobody knows what has come in
  end
  return math.min(units + (now - since) * limit.rate, 0)
end

while at < #args do
  local cost, patience, count = number(), number(), number()
  local first = at
  local refuser, longest, turn
  for i = 1, count do
    local state = state_of(tonumber(args[first + i]))
    local limit = state.limit
    local short = state.debt + cost * limit.unit - limit.full
    if short > 0 then
      local wait = math.ceil(short / limit.rate)
      if wait <= patience then
        turn = math.max(turn or 0, wait)
      elseif not longest or wait - patience > longest then
        refuser, longest = i, wait - patience
      end
    end
  end
  local tightest, least
  if not refuser then
    for i = 1, count do
      local state = state_of(tonumber(args[first + i]))
      local units = cost * state.limit.unit
      if cost < 0 then
        units = still_missing(units, patience, state.limit)
      end
      state.debt = math.max(state.debt + units, 0)
      state.changed = true
      local left = left_in(state)
      if not least or left < least then
        tightest, least = i, left
      end
    end
  end
  local decides = state_of(tonumber(args[first + (refuser or tightest)]))
  at = first + count
  reply[n + 1] = refuser and 0 or 1
  reply[n + 2] = refuser or tightest
  reply[n + 3] = left_in(decides)
  reply[n + 4] = longest or turn or 0
  reply[n + 5] = math.ceil(decides.debt / decides.limit.rate)
  n = n + 5
end

for key, state in pairs(states) do
  if state.debt == 0 and state.changed then
    redis.call('DEL', key)
  elseif state.changed then
    -- The key may go once the bucket is full again, and not before: the time
    -- is rounded up, one more millisecond covers the division's own rounding,
    -- so it is never 0 and an expired key loses nothing.
    local ttl = math.ceil(state.debt / state.limit.rate / 1000) + 1
    redis.call('SET', key, string.format('%.0f %.0f %.0f', now, state.debt, state.limit.unit), 'PX', string.format('%.0f', ttl))
  end
end

return reply
