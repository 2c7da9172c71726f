-- Prefix of reserve.lua and of the scripts that release units (scripts.go).
--
-- Units released to an empty gate are sold only after a cooldown. A node may refuse from memory
-- for up to 100 ms (memory.go). Without the cooldown, a buyer could get a released unit at one
-- node while another node refuses the replay of the same order.
local COOLDOWN = 101 -- ms

-- cool_down(sale) starts the cooldown of the sale.
local function cool_down(sale)
  local time = redis.call('TIME')
  redis.call('HSET', sale, 'resume_at', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + COOLDOWN))
end

-- is_cooling_down(now, resume_at) reports whether the cooldown lasts. If resume_at is
-- more than COOLDOWN ahead, Redis's clock was set back in the meantime, and the cooldown
-- is over.
local function is_cooling_down(now, resume_at)
  local left = tonumber(resume_at or '0') - now
  return left > 0 and left <= COOLDOWN
end
