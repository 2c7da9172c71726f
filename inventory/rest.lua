-- Put before the scripts that bring units to a gate (see scripts.go).
--
-- Units that come to an empty gate go on sale a little later: a node refuses from
-- memory for at most 100 ms (memory.go). Otherwise a buyer could get one of them
-- by one node, and be refused the replay of that order by another.
--
-- rest(sale, unsure): nothing is sold for as long as a node's memory lasts. unsure:
-- the gate was stale, so it may have been empty when units were left. Then who asks
-- meanwhile hears no "sold out": the time is below 0.
local function rest(sale, unsure)
  local time = redis.call('TIME')
  redis.call('HSET', sale, 'resume_at', (unsure and '-' or '') .. string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + 101))
end
