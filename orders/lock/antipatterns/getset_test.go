package antipatterns

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// getset is the lock that the Redis documentation of SETNX described for years. The value is
// the time at which the lock ends, by the client's clock. A client that reads a time in the past
// writes a new time with GETSET, and holds the lock if GETSET returns the old time.
type getset struct {
	s     *scene
	now   time.Time // this client's clock
	wrote string
}

func (c *getset) ends() string { return strconv.FormatInt(c.now.Add(10*time.Second).Unix(), 10) }

func (c *getset) expired(value string) bool {
	at, _ := strconv.ParseInt(value, 10, 64)
	return c.now.Unix() > at
}

func (c *getset) read() string { return c.s.rdb.Get(c.s.ctx, key).Val() }

func (c *getset) getset(was string) bool {
	c.wrote = c.ends()
	old, err := c.s.rdb.GetSet(c.s.ctx, key, c.wrote).Result() //nolint:staticcheck // the antipattern uses GETSET
	if err != nil && !errors.Is(err, redis.Nil) {
		c.s.Fatalf("call to Redis: got error %v, want none", err)
	}
	return old == was
}

func (c *getset) release() bool {
	if c.read() != c.wrote {
		return false
	}
	return c.s.rdb.Del(c.s.ctx, key).Val() == 1
}

// setEnd stores a lock of C3 that ends at t.
func (s *scene) setEnd(t time.Time) { s.rdb.Set(s.ctx, key, t.Unix(), 0) }

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The loser overwrites the winner's value, so the winner cannot release the lock.
func TestAntipatternGetSetLoserOverwrites(t *testing.T) {
	show(t, func(s *scene) error {
		c4, c5 := &getset{s: s, now: noon.Add(time.Second)}, &getset{s: s, now: noon}
		s.say("C3 has crashed; its lock ended a minute ago")
		s.setEnd(noon.Add(-time.Minute))
		s.say("C4 and C5 both read the value, and both find that the lock has ended")
		was4, was5 := c4.read(), c5.read()
		s.say("C5's GETSET returns the old value, so C5 holds the lock: %v", c5.getset(was5))
		s.say("C4's GETSET returns C5's value, so C4 does not hold the lock: %v. But it has written its own value", !c4.getset(was4))
		s.say("C5 releases the lock if the value is its own")
		if !c5.release() {
			return errors.New("the holder cannot release its lock, and all clients wait")
		}
		return nil
	}, oursOutlived)
}

// A holder whose lock has ended deletes the lock of the next holder.
func TestAntipatternGetSetStaleDelete(t *testing.T) {
	show(t, func(s *scene) error {
		c3, c5, c6 := &getset{s: s, now: noon}, &getset{s: s, now: noon}, &getset{s: s, now: noon}
		s.say("C3 holds the lock, and works longer than its lock lasts")
		c3.wrote = strconv.FormatInt(noon.Add(-time.Second).Unix(), 10)
		s.setEnd(noon.Add(-time.Second))
		s.say("C5 finds that the lock has ended, and acquires it: %v", c5.getset(c5.read()))
		s.say("C3 has finished and deletes the key")
		s.rdb.Del(s.ctx, key)
		s.say("C6 tries to acquire the lock")
		if s.rdb.SetNX(s.ctx, key, c6.ends(), 0).Val() {
			return errBoth // C5 and C6
		}
		return nil
	}, oursOutlived)
}

// A client whose clock is ahead acquires a lock that has not ended.
func TestAntipatternGetSetClockAhead(t *testing.T) {
	show(t, func(s *scene) error {
		c4, c5 := &getset{s: s, now: noon.Add(15 * time.Second)}, &getset{s: s, now: noon}
		s.say("C5 acquires the lock for 10s")
		c5.wrote = c5.ends()
		s.rdb.SetNX(s.ctx, key, c5.wrote, 0)
		s.say("C4's clock is 15s ahead: by that clock the lock has ended")
		if was := c4.read(); c4.expired(was) && c4.getset(was) {
			return errBoth
		}
		return nil
	}, func(s *scene) error {
		s.say("C5 acquires the lock; the lease is measured by the server's clock")
		if !s.acquires(s.ours()) {
			s.Fatal("client C5: got the lock held, want it free")
		}
		s.say("C4 tries to acquire the lock")
		if s.acquires(s.ours()) {
			return errBoth
		}
		return nil
	})
}
