-- Functions of enter.lua and reenter.lua, sent before each of them.

-- longest returns the longest lease of the entries, in ms. If the key lives longer than
-- that, the server's clock was set back, and the lease counts as ended.
local function longest()
  local ms = 0
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field ~= 'owner' then
      ms = math.max(ms, tonumber(string.match(field, '%.(%d+)$') or math.huge))
    end
  end
  return ms
end

-- keep extends the key's life to at least one lease. Another entry may have a longer lease,
-- so keep shortens it only if the clock of the server was set back.
local function keep(lease)
  local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(lease))
  redis.call('PEXPIRE', KEYS[1], math.min(left, longest()))
end

