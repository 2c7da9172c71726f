-- Prefix of the scripts that return units to a gate, and of reserve.lua (scripts.go).
--
-- Units that return to an empty gate are sold after a pause. A node refuses from
-- memory for up to 100 ms (memory.go). Without the pause a buyer could get one of
-- these units at one node, and the replay of that order could be refused at another.
local COOLDOWN = 101 -- ms

-- cool_down(sale): pauses the sale for COOLDOWN.
local function cool_down(sale)
  local time = redis.call('TIME')
  redis.call('HSET', sale, 'resume_at', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + COOLDOWN))
end

-- is_cooling_down(now, resume_at): reports whether the sale is paused. If the end of the pause
-- is more than COOLDOWN ahead, Redis's clock was set back since, and the pause is over.
local function is_cooling_down(now, resume_at)
  local left = tonumber(resume_at or '0') - now
  return left > 0 and left <= COOLDOWN
end
