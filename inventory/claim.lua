-- Claim: a new keeper shows its fence, so that the one before it is refused
-- from here on, even where this keeper finds nothing to change.
--
-- KEYS  1 sale
-- ARGV  1 fence
-- Returns 'OK'; error FENCED.
return fenced(KEYS[1], ARGV[1]) or 'OK'
