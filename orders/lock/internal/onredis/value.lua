-- What the scripts of a lock in one Redis share: what stands in its key. It is sent
-- before each of them.
--
-- A holder's value is its token, and where it has a note also since when it holds
-- the lock, in ms by this server's clock, and the note, with a space between each.
-- A token ends in its lease: see NewToken.

local function clock_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function value_of(token, note)
  if note == '' then
    return token
  end
  return token .. ' ' .. string.format('%.0f', clock_ms()) .. ' ' .. note
end

-- A key that lives longer than its lease outlived a step of the server's clock. Its
-- lease counts as ended: otherwise a dead holder would keep the lock for the whole step.
local function has_ended(key, value)
  local lease = string.match(value, '^%w+%.(%d+)')
  return lease and redis.call('PTTL', key) > tonumber(lease)
end

local function is_of(token, value)
  return value == token or value and string.sub(value, 1, #token + 1) == token .. ' '
end
