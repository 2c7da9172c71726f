package antipatterns

import "testing"

// Many tutorials acquire a lock with SETNX, or with INCR and a result of 1, and then set its
// expiry with EXPIRE. If the client crashes between the two commands, the lock never ends.
func TestAntipatternExpireAfter(t *testing.T) {
	for command, take := range map[string]func(s *scene) bool{
		"SETNX": func(s *scene) bool { return s.rdb.SetNX(s.ctx, key, "a", 0).Val() },
		"INCR":  func(s *scene) bool { return s.rdb.Incr(s.ctx, key).Val() == 1 },
	} {
		t.Run(command, func(t *testing.T) {
			show(t,
				func(s *scene) error {
					s.say("A acquires the lock: %s", command)
					take(s)
					s.say("A crashes before its EXPIRE")
					s.pass(1000 * long)
					s.say("B tries to acquire the lock")
					if !take(s) && s.mini.TTL(key) == 0 {
						return errForever
					}
					return nil
				},
				func(s *scene) error {
					s.say("A acquires the lock: one script sets value and expiry")
					if !s.acquires(s.ours()) {
						s.Fatal("client A: got the lock held, want it free")
					}
					s.say("A crashes")
					s.pass(long)
					s.say("B tries to acquire the lock")
					if !s.acquires(s.ours()) {
						return errForever
					}
					return nil
				})
		})
	}
}
