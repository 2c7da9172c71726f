-- Put before the scripts that bring units to a gate (see scripts.go).
--
-- Units that come to an empty gate go on sale a little later: a node refuses from
-- memory for at most 100 ms (memory.go). Otherwise a buyer could get one of them
-- by one node, and be refused the replay of that order by another.
--
-- rest(sale): nothing is sold for as long as a node's memory lasts.
local function rest(sale)
  local time = redis.call('TIME')
  redis.call('HSET', sale, 'resume_at', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + 101))
end
