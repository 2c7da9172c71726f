package ratelimit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale/ratelimit/limit"
)

// ErrBadRequest is wrapped by errors about wrong arguments: a cost below 1, a bucket
// without an id or a limit, the same bucket twice, more than 16 buckets, or a wait that
// is too long to count. Redis is not asked, and other callers are not affected.
var ErrBadRequest = errors.New("ratelimit: bad request")

// maxID is the length of the longest id of a bucket, in bytes.
const maxID = 256

// maxBuckets is the largest number of buckets of one request.
const maxBuckets = 16

// A Bucket counts the tokens of one client or thing. Name is its kind, such as "buyer",
// and ID identifies it, such as "ann". A Bucket whose limit is limit.Off is skipped.
type Bucket struct {
	// Name has 1 to 32 characters of [A-Za-z0-9._-]. It appears in keys, metrics and
	// headers.
	Name string
	// ID has 1 to 256 arbitrary bytes.
	ID    string
	Limit limit.Limit

	queues bool // the bucket is a queue of Wait, and also counts waiting requests
}

// key returns the bucket's key in Redis. The braces mark the hash tag, so each bucket has
// its own slot in a Redis Cluster.
func (b Bucket) key(prefix string) string {
	key := prefix + ":{" + b.Name + ":" + b.ID + "}"
	if b.queues {
		key += ":queue"
	}
	return key
}

// refillTime returns the time in which the given tokens are refilled.
func (b Bucket) refillTime(tokens int64) time.Duration {
	token, rate := b.Limit.Units()
	return time.Duration(tokens*token/rate) * time.Microsecond
}

func (b Bucket) check() error {
	if b.Name == "" || len(b.Name) > 32 || strings.ContainsFunc(b.Name, isForeign) {
		return fmt.Errorf("%w: the bucket's name %q is not 1 to 32 of [A-Za-z0-9._-]", ErrBadRequest, b.Name)
	}
	if b.ID == "" || len(b.ID) > maxID {
		return fmt.Errorf("%w: the id of bucket %q has %d bytes, not 1 to %d", ErrBadRequest, b.Name, len(b.ID), maxID)
	}
	if b.Limit == (limit.Limit{}) {
		return fmt.Errorf("%w: bucket %q has the zero limit (limit.Off is no limit)", ErrBadRequest, b.Name)
	}
	return nil
}

// isForeign reports whether a bucket's name may not contain r. Searching a list of the
// allowed characters was slower: it took a microsecond of each order.
func isForeign(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
}
