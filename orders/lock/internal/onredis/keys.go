package onredis

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"flashsale/orders/lock/lease"
)

// NewToken returns a token that tells a holder from every other. It ends in the lease,
// so that the scripts can tell how long its key may live.
func NewToken(lease time.Duration) string {
	return rand.Text() + "." + strconv.FormatInt(lease.Milliseconds(), 10)
}

// leaseOf returns the lease in the token of value, or lease.Forever if there is none.
func leaseOf(value string) time.Duration {
	token, _, _ := strings.Cut(value, " ")
	_, ms, _ := strings.Cut(token, ".")
	if n, err := strconv.ParseInt(ms, 10, 64); err == nil {
		return time.Duration(n) * time.Millisecond
	}
	return lease.Forever
}

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
