package onredis

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"flashsale/orders/lock/lease"
)

// NewToken returns a unique token for one holder. The token ends in the lease, which is the
// longest time that its key may live.
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

// Keys returns the three keys of a lock: the lock, its wait queue, and its waiters. They
// share one slot of a Redis Cluster.
func Keys(key string) []string {
	tag := Tagged(key)
	return []string{key, tag + ":line", tag + ":waiters"}
}

// Tagged returns key with a hash tag, so that a suffix does not change its slot. If key has
// no tag, the whole key becomes the tag.
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

// CheckKey returns lease.ErrKey if Tagged cannot preserve the slot of key.
func CheckKey(key string) error {
	if key == "" || !hasTag(key) && strings.ContainsAny(key, "{}") {
		return fmt.Errorf("%w: %q", lease.ErrKey, key)
	}
	return nil
}
