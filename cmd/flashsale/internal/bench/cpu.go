package bench

import "time"

// A meter reads what the processes under load have used. A pid of 0 is a
// process that takes no part.
type meter struct{ app, redis, mysql int }

// usage is CPU time since a process began.
type usage struct{ app, redis, mysql time.Duration }

// read is false on systems that don't say.
func (m meter) read() (usage, bool) {
	var u usage
	known := true
	for _, p := range []struct {
		pid  int
		into *time.Duration
	}{{m.app, &u.app}, {m.redis, &u.redis}, {m.mysql, &u.mysql}} {
		if p.pid == 0 {
			continue
		}
		t, ok := cpuTime(p.pid)
		*p.into, known = t, known && ok
	}
	return u, known
}

// start begins a measurement. What it returns ends it, and shares the time
// among the requests; nil on systems that don't say.
func (m meter) start() func(requests float64) *CPU {
	before, ok := m.read()
	return func(requests float64) *CPU {
		after, still := m.read()
		if !ok || !still || requests == 0 {
			return nil
		}
		each := func(pid int, d time.Duration) *float64 {
			us := float64(d.Nanoseconds()) / 1e3 / requests
			if pid == 0 {
				return nil
			}
			return &us
		}
		cpu := &CPU{Redis: each(m.redis, after.redis-before.redis), MySQL: each(m.mysql, after.mysql-before.mysql)}
		if app := each(m.app, after.app-before.app); app != nil {
			cpu.App = *app
		}
		return cpu
	}
}
