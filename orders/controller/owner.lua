-- Owner renews the ownership of this Redis, or finds that another database owns it.
--
-- KEYS  1 owner: lines with the proof, the place and the node of the last renewal
--       2 rival: a node of another database that has found the owner
-- ARGV  1 ms for which the ownership lasts
--       2 'owner' if the database of this node has owned Redis since the node's start,
--         'same' if a known proof has stayed for sameAfter, so the database has only moved,
--         'rival' if the node has found an unknown proof before, otherwise 'new'
--       3 place of this node's database  4 this node
--       5… proofs of this node's database, the newest first
-- Returns {the value of another owner or '', 1 if its proof is known, the rival or ''}.
--
-- A proof is not enough for a new node: its database may have been copied a moment ago. A copy
-- has another place.
local owner = redis.call('GET', KEYS[1])
local proof, place = string.match(owner or '', '^([^\n]*)\n([^\n]*)')
local known = 0
for i = 5, #ARGV do
  if ARGV[i] == proof then known = 1 end
end
local mine = not owner
  or known == 1 and (ARGV[2] == 'owner' or ARGV[2] == 'same' or place == ARGV[3])
if mine or ARGV[2] == 'owner' then
  redis.call('SET', KEYS[1], ARGV[5] .. '\n' .. ARGV[3] .. '\n' .. ARGV[4], 'PX', ARGV[1])
elseif ARGV[2] == 'rival' then
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[1])
end
local rival = redis.call('GET', KEYS[2])
if mine and rival == ARGV[4] then -- this node was the rival, and its database owns Redis now
  redis.call('DEL', KEYS[2])
  rival = false
end
return { mine and '' or owner, known, rival or '' }
