package antipatterns

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest/check"
)

// getset is the lock that Redis's own page on SETNX described for years: the
// value is the client's time at which the lock ends, and who finds it in the past
// writes a new one with GETSET and has won if the old one came back.
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
	old, err := c.s.rdb.GetSet(c.s.ctx, key, c.wrote).Result() //nolint:staticcheck // it is what this lock is made of
	if err != nil && !errors.Is(err, redis.Nil) {
		c.s.Fatal(err)
	}
	return old == was
}

func (c *getset) release() bool {
	if c.read() != c.wrote {
		return false
	}
	return c.s.rdb.Del(c.s.ctx, key).Val() == 1
}

func (s *scene) left(by time.Time) { // a lock that C3 left when it died
	s.rdb.Set(s.ctx, key, by.Unix(), 0)
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The winner's value is overwritten by the loser, so the winner can't release.
func TestAntipatternGetSetLoserOverwrites(t *testing.T) {
	show(t, func(s *scene) error {
		c4, c5 := &getset{s: s, now: noon.Add(time.Second)}, &getset{s: s, now: noon}
		s.say("C3 died; its lock ended a minute ago")
		s.left(noon.Add(-time.Minute))
		s.say("C4 and C5 both read it, and both see that it is over")
		was4, was5 := c4.read(), c5.read()
		s.say("C5: GETSET gives it the old value, it has won: %v", c5.getset(was5))
		s.say("C4: GETSET gives it C5's value, it has lost: %v; but it has written its own", !c4.getset(was4))
		s.say("C5 releases by comparing")
		if !c5.release() {
			return errors.New("the holder can't release its own lock: everybody waits for nothing")
		}
		return nil
	}, oursAfterDeath)
}

// A third one that saw the same expired value deletes what it finds later.
func TestAntipatternGetSetStaleDelete(t *testing.T) {
	show(t, func(s *scene) error {
		c3, c5, c6 := &getset{s: s, now: noon}, &getset{s: s, now: noon}, &getset{s: s, now: noon}
		s.say("C3 holds the lock, and works for longer than it said")
		c3.wrote = strconv.FormatInt(noon.Add(-time.Second).Unix(), 10)
		s.left(noon.Add(-time.Second))
		s.say("C5 finds it over, and takes it: %v", c5.getset(c5.read()))
		s.say("C3 is done and deletes the key")
		s.rdb.Del(s.ctx, key)
		s.say("C6 tries")
		if s.rdb.SetNX(s.ctx, key, c6.ends(), 0).Val() {
			return errBoth // C5 and C6
		}
		return nil
	}, oursAfterDeath)
}

// A clock that is ahead sees locks end that have not.
func TestAntipatternGetSetClockAhead(t *testing.T) {
	show(t, func(s *scene) error {
		c4, c5 := &getset{s: s, now: noon.Add(15 * time.Second)}, &getset{s: s, now: noon}
		s.say("C5 takes the lock for 10s")
		c5.wrote = c5.ends()
		s.rdb.SetNX(s.ctx, key, c5.wrote, 0)
		s.say("C4's clock is 15s ahead: to it the lock is over")
		if was := c4.read(); c4.expired(was) && c4.getset(was) {
			return errBoth
		}
		return nil
	}, func(s *scene) error {
		s.say("C5 takes the lock; when it ends is the server's to know, no client's time is asked")
		if !s.enters(s.ours()) {
			s.Fatal("not free")
		}
		s.say("C4 tries")
		if s.enters(s.ours()) {
			return errBoth
		}
		return nil
	})
}

func oursAfterDeath(s *scene) error {
	s.say("C3 takes the lock, and works for longer than its lease")
	c3, err := s.ours().TryAcquire(s.ctx, key)
	check.Must(s, err)
	s.pass(long)
	s.say("C4 and C5 try: one script, so one of them comes first")
	c5, err := s.ours().TryAcquire(s.ctx, key)
	check.Must(s, err)
	if s.enters(s.ours()) {
		return errBoth
	}
	s.say("C3 is done and releases: %v", c3.Release(s.ctx))
	if s.enters(s.ours()) {
		return errBoth // C5 and C6
	}
	s.say("C5 releases")
	return c5.Release(s.ctx)
}
