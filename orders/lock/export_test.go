package lock

import "testing"

// Hashes of the scripts, by which a proxy tells the commands apart.
func Hashes() (acquire, renew, release string) {
	sc := newScripts()
	return sc.acquire.Hash(), sc.renew.Hash(), sc.release.Hash()
}

// ReentrantHashes is Hashes of a Reentrant.
func ReentrantHashes() (enter, reenter, leave string) {
	r := NewReentrant(nil, "", Config{})
	return r.enter.Hash(), r.reenter.Hash(), r.leave.Hash()
}

// Listens is whether c's subscription stands, and c knows.
func Listens(c *Client) bool {
	c.waits.mu.Lock()
	defer c.waits.mu.Unlock()
	return c.waits.confirmed > 0
}

// StartEmbedded and StartReal start a Redis for the rest of the test.
var StartEmbedded, StartReal = start(embedded), start(real)

func start(f func(*testing.T) server) func(*testing.T) string {
	return func(t *testing.T) string { return f(t).addr }
}

// waiting is how many wait at key for their turn or have it.
func (t *turns) waiting(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, taken := t.lines[key]
	if !taken {
		return 0
	}
	return len(line) + 1
}
