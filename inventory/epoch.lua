-- Put before the scripts of a keeper that are true of one gate only (see
-- scripts.go).
--
-- A gate of another epoch has been rebuilt, or has forgotten: what this keeper
-- knows of it no longer holds. Scripts do not carry the keeper's fence, which
-- the database checks. A keeper that was replaced may still reach the gate, and
-- does no harm there: releasing and confirming name orders whose end is in the
-- database, closing the gate costs a rebuild, old terms are corrected by the
-- next look at the gate, and install.lua asks for the gate that its own keeper
-- has closed.
--
-- out_of_epoch(key, epoch): nil, or the error reply NOGATE or EPOCH.
local function out_of_epoch(key, epoch)
  local sale = redis.call('HMGET', key, 'state', 'epoch')
  if not sale[1] then
    return redis.error_reply('NOGATE of ' .. key) -- one word alone would get ERR put before it
  end
  if tonumber(sale[2]) ~= tonumber(epoch) then
    return redis.error_reply('EPOCH ' .. epoch .. ' is not ' .. sale[2])
  end
end
