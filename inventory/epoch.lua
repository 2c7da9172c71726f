-- Prefix of the keeper's scripts that are valid for one gate only (scripts.go). If the
-- gate has another epoch, it was rebuilt or lost, and what the keeper has read is out of
-- date.
--
-- The keeper's fence is in the database, and scripts cannot check it. Therefore a keeper
-- that was replaced may still reach the gate. Its calls do no harm: ReleaseHolds and DropHolds
-- name orders that are closed or paid in the database. Shutting a gate costs another
-- rebuild, and the next comparison corrects old terms. Install opens only the gate that
-- the same keeper has shut.
--
-- out_of_epoch(key, epoch) returns nil, or the error reply NOGATE or EPOCH.
local function out_of_epoch(key, epoch)
  local sale = redis.call('HMGET', key, 'state', 'epoch')
  if not sale[1] then
    return redis.error_reply('NOGATE of ' .. key) -- Redis adds the prefix ERR to an error of one word
  end
  if tonumber(sale[2]) ~= tonumber(epoch) then
    return redis.error_reply('EPOCH ' .. epoch .. ' is not ' .. sale[2])
  end
end
