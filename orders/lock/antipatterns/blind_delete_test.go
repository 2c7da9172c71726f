package antipatterns

import "testing"

// SET NX PX is a correct way to acquire a lock. The test shows three broken ways to release it.
func TestAntipatternBlindDelete(t *testing.T) {
	for way, release := range map[string]func(s *scene, mine string, between func()){
		"DEL": func(s *scene, _ string, between func()) {
			between()
			s.rdb.Del(s.ctx, key)
		},
		"GET, compare, DEL": func(s *scene, mine string, between func()) {
			if s.rdb.Get(s.ctx, key).Val() == mine {
				between() // the result of the comparison is outdated
				s.rdb.Del(s.ctx, key)
			}
		},
		"compare with a value that all clients use": func(s *scene, _ string, between func()) {
			between()
			if s.rdb.Get(s.ctx, key).Val() == "1" {
				s.rdb.Del(s.ctx, key)
			}
		},
	} {
		t.Run(way, func(t *testing.T) {
			show(t,
				func(s *scene) error {
					a, b := "a", "b"
					if way == "compare with a value that all clients use" {
						a, b = "1", "1"
					}
					s.say("A acquires the lock")
					s.rdb.SetNX(s.ctx, key, a, long)
					s.say("A releases the lock: %s", way)
					release(s, a, func() {
						s.say("before that step, A's lease ends")
						s.pass(long)
						s.say("B acquires the lock")
						s.rdb.SetNX(s.ctx, key, b, long)
					})
					s.say("C tries to acquire the lock while B holds it")
					if s.rdb.SetNX(s.ctx, key, "c", long).Val() {
						return errBoth // B and C
					}
					return nil
				},
				oursOutlived)
		})
	}
}
