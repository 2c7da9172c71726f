package antipatterns

import (
	"flashsale/loadtest/servers/servertest/check"
	"testing"
)

// SET NX PX is right to take a lock. Three ways to spoil it when giving it up.
func TestAntipatternBlindDelete(t *testing.T) {
	for way, release := range map[string]func(s *scene, mine string, between func()){
		"DEL": func(s *scene, _ string, between func()) {
			between()
			s.rdb.Del(s.ctx, key)
		},
		"GET, compare, DEL": func(s *scene, mine string, between func()) {
			if s.rdb.Get(s.ctx, key).Val() == mine {
				between() // the comparison is of a moment ago
				s.rdb.Del(s.ctx, key)
			}
		},
		"compare with a value that all use": func(s *scene, _ string, between func()) {
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
					if way == "compare with a value that all use" {
						a, b = "1", "1"
					}
					s.say("A takes the lock")
					s.rdb.SetNX(s.ctx, key, a, long)
					s.say("A is done and releases: %s", way)
					release(s, a, func() {
						s.say("... but before that, its lease ends")
						s.pass(long)
						s.say("B takes the lock")
						s.rdb.SetNX(s.ctx, key, b, long)
					})
					s.say("C tries, while B works")
					if s.rdb.SetNX(s.ctx, key, "c", long).Val() {
						return errBoth // B and C
					}
					return nil
				},
				func(s *scene) error {
					s.say("A takes the lock")
					a, err := s.ours().TryAcquire(s.ctx, key)
					check.Must(s, err)
					s.pass(long)
					s.say("B takes the lock")
					if !s.enters(s.ours()) {
						s.Fatal("not free")
					}
					s.say("A is done and releases: %v", a.Release(s.ctx))
					s.say("C tries, while B works")
					if s.enters(s.ours()) {
						return errBoth
					}
					return nil
				})
		})
	}
}
