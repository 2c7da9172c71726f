package orders

import (
	"sync/atomic"
	"time"
)

// A doubt is when a gate's no is not the last word. A Redis that was restarted,
// or a replica that was promoted, may lack the last writes, and with them who
// has had an order: it would refuse the replay of an order that was accepted.
// Until the keepers have compared everything, a keyed request that is refused is
// looked for in the database, whoever sent it.
type doubt struct{ until atomic.Pointer[time.Time] }

// from is called when Redis is found to be another one; most is how long a
// comparison of everything may take.
func (d *doubt) from(most time.Duration) {
	until := time.Now().Add(most)
	d.until.Store(&until)
}

func (d *doubt) is() bool {
	until := d.until.Load()
	return until != nil && time.Now().Before(*until)
}

// RedisChanged tells the service that Redis is no longer the process that it
// was: what it knows may be older than what this node has seen.
func (s *Service) RedisChanged() {
	s.cfg.Log.Warn("Redis is another one than before: a no is looked up in the database for a while")
	// Two rounds: one may be under way, of before. And what was found is
	// repaired only when it has lasted.
	s.doubt.from(2*s.cfg.Keeper.ReconcileHoldsEvery + (lasting+1)*s.cfg.Keeper.ReconcileEvery)
}
