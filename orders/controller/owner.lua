-- Owner renews the ownership of this Redis, or finds that another database owns it.
--
-- KEYS  1 owner: lines with the proof, the place and the node of the last renewal
--       2 rival: lines with the place and the node of another database that has found the owner
--       3 taken: exists if a database has taken the ownership from another one lately
-- ARGV  1 ms for which the ownership lasts
--       2 'owner' if the database of this node has owned Redis since the node's start,
--         'same' if the owner has replaced known proofs by known proofs, so the database has only moved,
--         'rival' if the node has found an unknown proof before, otherwise 'new'
--       3 place of this node's database  4 this node
--       5 ms for which taken exists  6 proof to store
--       7… proofs of this node's database
-- Returns {the value of another owner or '', 1 if its proof is known, the value of rival or '', 1 if
-- taken exists}.
--
-- A proof is not enough for a new node: its database may have been copied a moment ago. A copy
-- has another place.
local owner = redis.call('GET', KEYS[1])
local proof, place = string.match(owner or '', '^([^\n]*)\n([^\n]*)')
local known = 0
for i = 7, #ARGV do
  if ARGV[i] == proof then known = 1 end
end
local mine = not owner
  or known == 1 and (ARGV[2] == 'owner' or ARGV[2] == 'same' or place == ARGV[3])
if mine or ARGV[2] == 'owner' then
  redis.call('SET', KEYS[1], ARGV[6] .. '\n' .. ARGV[3] .. '\n' .. ARGV[4], 'PX', ARGV[1])
elseif ARGV[2] == 'rival' then
  redis.call('SET', KEYS[2], ARGV[3] .. '\n' .. ARGV[4], 'PX', ARGV[1])
end
if not mine and ARGV[2] == 'owner' then redis.call('SET', KEYS[3], 1, 'PX', ARGV[5]) end
local rival = redis.call('GET', KEYS[2])
if mine and rival and string.match(rival, '^[^\n]*') == ARGV[3] then -- this database was the rival
  redis.call('DEL', KEYS[2])
  rival = false
end
return { mine and '' or owner, known, rival or '', redis.call('EXISTS', KEYS[3]) }
