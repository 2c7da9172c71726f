-- A crash locks the client out forever.
--
-- The script counts with INCR and sets the expiry with a second command. If the node dies
-- in between, the count never expires.
--
--   limit buyer 1/s:1
--   1 ask buyer and the node dies: 0 pass, and 1 should
--   after 1h, 1 ask buyer: 0 pass, and 1 should
--
-- KEYS 1 the count. ARGV tokens, per (microseconds), burst, cost, and 1 if
-- the node dies before its second command. Returns 1 or 0.
local tokens, per, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local count = redis.call('INCRBY', KEYS[1], cost)
if ARGV[5] == '1' then
  return 0
end
if count == cost then
  redis.call('PEXPIRE', KEYS[1], math.ceil(per / 1000))
end
return count <= tokens and 1 or 0
