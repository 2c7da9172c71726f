package lock

// Listens reports whether the server has confirmed the subscription of c.
func Listens(c *Client) bool { return c.waits.confirmed.Load() }
