-- What enter.lua and reenter.lua share. It is sent before each of them.

-- longest returns the longest lease of the entries, in ms. A lock that lives longer
-- outlived a step of the server's clock, and its lease counts as ended.
local function longest()
  local most = 0
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field ~= 'owner' then
      most = math.max(most, tonumber(string.match(field, '%.(%d+)$') or math.huge))
    end
  end
  return most
end

-- keep has the lock live for a lease at least: another entry's may be longer.
local function keep(lease)
  local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(lease))
  redis.call('PEXPIRE', KEYS[1], math.min(left, longest()))
end

