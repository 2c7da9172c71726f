package antipatterns

import "testing"

// Take with SETNX, then say when it ends with EXPIRE. So does a hundred
// tutorials' lock, and the INCR variant ("1 means that it's mine").
func TestAntipatternExpireAfter(t *testing.T) {
	for command, take := range map[string]func(s *scene) bool{
		"SETNX": func(s *scene) bool { return s.rdb.SetNX(s.ctx, key, "a", 0).Val() },
		"INCR":  func(s *scene) bool { return s.rdb.Incr(s.ctx, key).Val() == 1 },
	} {
		t.Run(command, func(t *testing.T) {
			show(t,
				func(s *scene) error {
					s.say("A takes the lock: %s", command)
					take(s)
					s.say("A is killed before its EXPIRE")
					s.pass(1000 * long)
					s.say("B tries")
					if !take(s) && s.mini.TTL(key) == 0 {
						return errForever
					}
					return nil
				},
				func(s *scene) error {
					s.say("A takes the lock: one script sets value and expiry, there is no between")
					if !s.enters(s.ours()) {
						s.Fatal("not free")
					}
					s.say("A is killed")
					s.pass(long)
					s.say("B tries")
					if !s.enters(s.ours()) {
						return errForever
					}
					return nil
				})
		})
	}
}
