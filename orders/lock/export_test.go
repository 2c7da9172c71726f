package lock

// Listens is whether c's subscription stands, and c knows.
func Listens(c *Client) bool { return c.waits.confirmed.Load() }
