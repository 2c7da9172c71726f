package lock

import (
	"testing"
)

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
