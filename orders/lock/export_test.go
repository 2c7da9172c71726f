package lock

// Listens is whether c's subscription stands, and c knows.
func Listens(c *Client) bool {
	c.waits.mu.Lock()
	defer c.waits.mu.Unlock()
	return c.waits.confirmed > 0
}
