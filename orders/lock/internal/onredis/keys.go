package onredis

import (
	"fmt"
	"strings"

	"flashsale/orders/lock/lease"
)

// Keys are a lock's keys, which share a slot of a Redis Cluster: the lock, the
// line of those who wait for it, and what is known of them.
func Keys(key string) []string {
	tag := Tagged(key)
	return []string{key, tag + ":line", tag + ":waiters"}
}

// Tagged is key in a form to which something can be added without changing the
// slot: that of the part in braces, or of all of it where it has none.
func Tagged(key string) string {
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

// CheckKey refuses the keys of which Tagged could not keep the slot.
func CheckKey(key string) error {
	if key == "" || !hasTag(key) && strings.ContainsAny(key, "{}") {
		return fmt.Errorf("%w: %q", lease.ErrKey, key)
	}
	return nil
}
