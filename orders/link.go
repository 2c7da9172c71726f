package orders

import "sync"

// A link is what this node knows of its way to Redis. It changes its mind only
// when the opposite has lasted: what comes and goes must lead nobody onto the
// direct way, nor off it. It counts looks rather than time, so that a process
// that was stopped between two of them has not waited for anything.
type link struct {
	mu       sync.Mutex
	lost     bool
	contrary int // looks in a row that say the opposite
}

// contraryLooks are how many it takes.
const contraryLooks = 4

// saw takes note of one look, and tells whether it has changed the link's mind.
func (l *link) saw(answered bool) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answered != l.lost {
		l.contrary = 0
		return false
	}
	if l.contrary++; l.contrary < contraryLooks {
		return false
	}
	l.lost, l.contrary = !l.lost, 0
	return true
}

// isLost tells whether Redis has been out of reach for long, or has not been
// back for as long.
func (l *link) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}
