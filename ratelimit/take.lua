-- Take takes tokens from buckets for a batch of requests, one request after the other.
-- Each request takes its cost from all of its buckets or from none.
--
-- KEYS  keys of the buckets; a bucket with two limits appears twice
-- ARGV  1. number of limits, then for each limit: units in a token, units refilled per
--          microsecond, units in a full bucket, and the largest debt. If requests
--          queue, the largest debt is more than a full bucket.
--       2. for each key, the index of its limit
--       3. for each request: cost in tokens, a time in microseconds, number of buckets,
--          and the indexes of these buckets in KEYS
-- The time of a request depends on its cost:
--       cost > 0   longest time in the queue, or 0 for no queue
--       cost = 0   0; the request takes nothing
--       cost < 0   when the tokens were taken that are given back, or 0 for a grant.
--                  In a queue: when the turn that is given up would have ended.
-- Returns Redis's clock in microseconds, and five integers for each request:
--       1 if taken, 0 if refused
--       index of the deciding bucket in the request: the bucket that refuses for
--       longest, or else the bucket with the fewest tokens left
--       whole tokens in that bucket
--       microseconds until that bucket would allow the same cost if refused, or until
--       the request's turn if taken (0 without a queue)
--       microseconds until that bucket is full
-- Fails only if a write fails (read-only replica, out of memory).
--
-- The value of a key is "stamp debt unit". At `stamp`, in microseconds, the bucket was
-- `debt` units short of full, with `unit` units in a token. If there is no key, the
-- bucket is full. All numbers are whole and below 2^53, so Lua's doubles are exact.

local ceil, floor, max, min = math.ceil, math.floor, math.max, math.min
local SOON = 5000 -- in ms, see the end of the script
local keys, args = KEYS, ARGV -- strings; arithmetic converts them at half the cost of tonumber

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit_of = 1 + 4 * args[1] -- limit_of + k is the argument with the limit of key k
local states = {}

-- state_of(k) returns the state of the k-th key, refilled up to now.
local function state_of(k)
  local key, at = keys[k], 4 * args[limit_of + k] - 2
  local token, rate, full, max_debt = args[at], args[at + 1] + 0, args[at + 2] + 0, args[at + 3] + 0
  local state = states[key]
  if state then
    if state.token ~= token or state.rate ~= rate or state.full ~= full then
      -- Two nodes or callers in one batch have different limits for the bucket.
      state.debt = min(ceil(state.debt / state.unit * token), max_debt)
      state.token, state.unit, state.rate, state.full = token, token + 0, rate, full
    end
    return state
  end
  state = {debt = 0, token = token, unit = token + 0, rate = rate, full = full, changed = false, queue = max_debt > full and key}
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
    -- Another program wrote this value. The bucket counts as empty, which errs on the
    -- safe side, and the write at the end repairs the key.
    state.debt, state.changed = full, true
    return state
  end
  debt = debt + 0
  if unit ~= token then
    -- The limit has changed. The debt is converted to the new units.
    debt = ceil(debt / unit * token)
  end
  if debt > max_debt then
    debt = max_debt
  end
  local refilled = (now - stamp) * rate
  if refilled < 0 then
    -- The clock was set back, or another master has another clock. The bucket is refilled
    -- from now on. This is written even if the request is refused. Otherwise the bucket
    -- would not be refilled until the clock has caught up.
    state.debt, state.changed = debt, true
  elseif refilled < debt then
    state.debt = debt - refilled
  end
  return state
end

local function left_in(state)
  return floor((state.full - state.debt) / state.unit)
end

-- give_up(state, tokens, ends) removes a turn from a queue and returns the change of the
-- debt. The turn would have ended at `ends`. Later turns keep their times. If there are
-- any, give_up only notes the turn in :gone, and removes it with the last later turn.
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

-- Both are allocated for a single request.
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
        -- Tokens that were refilled since are not given back. The bucket may have been
        -- full in between, and other requests may have taken them. If the clock went
        -- back, the refill is unknown, and nothing is given back.
        local since = patience
        if since > 0 then -- 0 is a grant
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

-- A key expires when its bucket is full. The time is rounded up, and one more millisecond
-- covers the rounding of the division, so an expired key loses nothing.
--
-- A bucket that is full within SOON is written neither to the append-only file nor to
-- replicas, because each call would wait for the disk. A restart or a failover then gives
-- out at most one burst too many. The key lives for at least SOON, so that Redis logs
-- fewer expired keys.
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
