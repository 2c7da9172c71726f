-- Takes tokens from buckets for a batch of requests, one after the other: each
-- request takes its cost from all of its buckets or from none.
--
-- KEYS    the buckets' keys (one that is counted by two limits stands twice)
-- ARGV    1. how many limits; per limit: units in a token, units refilled per
--            microsecond, units in a full bucket, and the most units that one
--            can be short of full: more than a full bucket where requests queue
--         2. per key: the index of its limit
--         3. per request until the end: its cost in tokens (0 only looks), the microseconds
--            it would queue (0 where it is now or not at all), how many
--            buckets, their indexes in KEYS. A cost below 0 gives back what was
--            taken; then the second number is when it was. Of a queue it gives a
--            turn up; then the second number is when that would have been over.
--            With a second number of 0 they are given as they are.
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

local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min
local SOON = 5000 -- ms, see the end
local keys, args = KEYS, ARGV -- arithmetic reads their numbers, at half the price of tonumber

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit_of = 1 + 4 * args[1] -- with a key's index added
local states = {}

-- state_of returns what the k-th key says, refilled up to now.
local function state_of(k)
  local key, at = keys[k], 4 * args[limit_of + k] - 2
  local token, rate, full, most = args[at], args[at + 1] + 0, args[at + 2] + 0, args[at + 3] + 0
  local state = states[key]
  if state then
    if state.token ~= token or state.rate ~= rate or state.full ~= full then
      -- Two nodes' configurations, or two callers', in one batch.
      state.debt = min(ceil(state.debt / state.unit * token), most)
      state.token, state.unit, state.rate, state.full = token, token + 0, rate, full
    end
    return state
  end
  state = {debt = 0, token = token, unit = token + 0, rate = rate, full = full, changed = false, queue = most > full and key}
  states[key] = state
  local value = redis.pcall('GET', key)
  if not value then
    return state
  end
  local stamp, debt, unit
  if type(value) == 'string' then
    stamp, debt, unit = string.match(value, '^(%d+) (%d+) (%d+)$')
  end
  if not unit or unit + 0 < 1 then
    -- Not our value: an empty bucket, which errs on the safe side and, being
    -- written back, heals.
    state.debt, state.changed = full, true
    return state
  end
  debt = debt + 0
  if unit ~= token then
    -- The limit has been changed since: the same tokens in other units.
    debt = ceil(debt / unit * token)
  end
  if debt > most then
    debt = most
  end
  local refilled = (now - stamp) * rate
  if refilled < 0 then
    -- The clock went back (set back, or another master's). Count from here on,
    -- and write that down even when refusing: else the bucket would stand
    -- still until the clock has caught up.
    state.debt, state.changed = debt, true
  elseif refilled < debt then
    state.debt = debt - refilled
  end
  return state
end

local function left_in(state)
  return floor((state.full - state.debt) / state.unit)
end

-- give_up takes a turn out of a queue, of so many tokens, that would have been over
-- at `ends`. Others who stand behind it have been told their turns: then it is
-- noted, and goes when the last of them is given up, too. Returns the units.
local function give_up(state, tokens, ends)
  local gone, debt = state.queue .. ':gone', state.debt
  local over = now + ceil(debt / state.rate)
  if over ~= ends then
    if ends > now and ends < over then
      redis.call('HSET', gone, string.format('%.0f', ends), tokens)
      redis.call('PEXPIRE', gone, ceil((over - now) / 1000) + 1)
    end
    return 0
  end
  repeat
    debt = max(debt - tokens * state.unit, 0)
    local before = string.format('%.0f', now + ceil(debt / state.rate))
    tokens = redis.call('HGET', gone, before)
    redis.call('HDEL', gone, before)
  until not tokens
  return debt - state.debt
end

-- Both with room for a lone request.
local reply, n = {now, 0, 0, 0, 0, 0}, 1
local asked = {0, 0, 0}
local at = limit_of + #keys

while at < #args do
  local cost, patience, count = args[at + 1] + 0, args[at + 2] + 0, args[at + 3] + 0
  local refuser, longest, turn
  at = at + 3
  for i = 1, count do
    local state = state_of(args[at + i] + 0)
    asked[i] = state
    local short = state.debt + cost * state.unit - state.full
    if short > 0 then
      local wait = ceil(short / state.rate)
      if wait <= patience then
        turn = max(turn or 0, wait)
      elseif not longest or wait - patience > longest then
        refuser, longest = i, wait - patience
      end
    end
  end
  at = at + count
  local tightest, least
  if not refuser then
    for i = 1, count do
      local state = asked[i]
      local units = cost * state.unit
      if cost < 0 and state.queue then
        units = give_up(state, -cost, patience)
      elseif cost < 0 then
        -- Given back is what is still missing of what was taken then, and not
        -- what has come in since: the bucket may have been full in between, then
        -- others have taken that, and it would be given out twice. Where the
        -- clock went back, nobody knows what has come in.
        local since = patience
        if since > 0 then -- else it is a gift
          units = since > now and 0 or min(units + (now - since) * state.rate, 0)
        end
      end
      local debt = state.debt + units
      if cost ~= 0 then
        state.debt, state.changed = debt > 0 and debt or 0, true
      end
      local left = left_in(state)
      if not least or left < least then
        tightest, least = i, left
      end
    end
  end
  local decides = asked[refuser or tightest]
  reply[n + 1] = refuser and 0 or 1
  reply[n + 2] = refuser or tightest
  reply[n + 3] = max(least or left_in(decides), 0)
  reply[n + 4] = longest or turn or 0
  reply[n + 5] = ceil(decides.debt / decides.rate)
  n = n + 5
end

-- A bucket's key expires once the bucket is full again, and not before: the time is
-- rounded up, and one more millisecond covers the division's own rounding, so an
-- expired key loses nothing. A bucket that is full again within SOON is written neither
-- to the append-only file nor to a replica: each call would wait for the disk, and a
-- restart or a failover that loses such a bucket gives out one burst at most. Its key
-- still lives for SOON: Redis logs each key that expires.
local stamp, logged = string.format('%.0f ', now), true
for key, state in pairs(states) do
  if state.changed then
    local ttl = ceil(state.debt / state.rate / 1000) + 1
    local log = state.debt == 0 or ttl > SOON
    if log ~= logged then
      redis.set_repl(log and redis.REPL_ALL or redis.REPL_NONE)
      logged = log
    end
    if state.debt == 0 then
      redis.call('DEL', key)
    else
      redis.call('SET', key, stamp .. string.format('%.0f ', state.debt) .. state.token, 'PX', max(ttl, SOON))
    end
  end
end

return reply
