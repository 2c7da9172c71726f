-- Put before every script of a keeper (see scripts.go).
--
-- The gate remembers the highest fence it has seen and refuses a lower one: a
-- keeper that was paused and comes back after another took over changes
-- nothing. The fence comes from the database, never from Redis: a promoted
-- replica could hand out the same counter twice.
--
-- fenced(key, fence): nil, or the error reply FENCED.
-- out_of_epoch(key, epoch): nil, or the error reply NOGATE or EPOCH. A gate of
-- another epoch has been rebuilt, or has forgotten: what this keeper knows of
-- it no longer holds.
local function fenced(key, fence)
  local seen = tonumber(redis.call('HGET', key, 'fence') or '0')
  fence = tonumber(fence)
  if fence < seen then
    return redis.error_reply('FENCED ' .. fence .. ' is below ' .. seen)
  end
  if fence > seen then
    redis.call('HSET', key, 'fence', string.format('%.0f', fence))
  end
end

local function out_of_epoch(key, epoch)
  local sale = redis.call('HMGET', key, 'state', 'epoch')
  if not sale[1] then
    return redis.error_reply('NOGATE of ' .. key) -- one word alone would get ERR put before it
  end
  if tonumber(sale[2]) ~= tonumber(epoch) then
    return redis.error_reply('EPOCH ' .. epoch .. ' is not ' .. sale[2])
  end
end
