package antipatterns

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// INCR and PEXPIRE in one script acquire a lock that always ends. But its value is a count, and
// does not identify the owner. The test shows two ways to release it.
func TestAntipatternCounter(t *testing.T) {
	script := redis.NewScript(`
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return n`)
	take := func(s *scene) bool {
		return script.Run(s.ctx, s.rdb, []string{key}, long.Milliseconds()).Val() == int64(1)
	}
	for way, release := range map[string]func(s *scene){
		"DEL":  func(s *scene) { s.rdb.Del(s.ctx, key) },
		"DECR": func(s *scene) { s.rdb.Decr(s.ctx, key) },
	} {
		t.Run(way, func(t *testing.T) {
			show(t,
				func(s *scene) error {
					s.say("A acquires the lock: the count is 1")
					take(s)
					s.say("A's lease ends")
					s.pass(long)
					s.say("B acquires the lock: the count is 1 again")
					take(s)
					s.say("A releases the lock: %s", way)
					release(s)
					s.say("C tries to acquire the lock while B holds it")
					if take(s) {
						return errBoth // B and C
					}
					return nil
				},
				oursOutlived)
		})
	}
}
