package lock

import (
	"fmt"
	"strings"
)

// keys are a lock's keys, which share a slot of a Redis Cluster: the lock, the
// line of those who wait for it, and what is known of them.
func keys(key string) []string {
	tag := tagged(key)
	return []string{key, tag + ":line", tag + ":waiters"}
}

// tagged is key in a form to which something can be added without changing the
// slot: that of the part in braces, or of all of it where it has none.
func tagged(key string) string {
	if hasTag(key) {
		return key
	}
	return "{" + key + "}"
}

func hasTag(key string) bool {
	_, rest, open := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return open && closed && tag != ""
}

// checkKey refuses the keys of which tagged could not keep the slot.
func checkKey(key string) error {
	if key == "" || !hasTag(key) && strings.ContainsAny(key, "{}") {
		return fmt.Errorf("%w: %q", ErrKey, key)
	}
	return nil
}

// channel is where a client hears that it was given a lock.
func channel(client string) string { return "lock-client:" + client }
