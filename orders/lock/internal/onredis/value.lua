-- The value of a lock's key: functions that are sent before each script that reads it.
--
-- The value is the holder's token. If the holder has a note, the value is "token since
-- note", where since is the time of the acquisition in ms by this server's clock. A token
-- ends in its lease: see NewToken.

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

-- If a key lives longer than its lease, the server's clock was set back. The lease then
-- counts as ended. Otherwise a dead holder would keep the lock until the clock catches up.
local function has_ended(key, value)
  local lease = string.match(value, '^%w+%.(%d+)')
  return lease and redis.call('PTTL', key) > tonumber(lease)
end

local function is_of(token, value)
  return value == token or value and string.sub(value, 1, #token + 1) == token .. ' '
end
