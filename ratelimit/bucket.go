package ratelimit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale/ratelimit/limit"
)

// ErrBadRequest is wrapped when the arguments are wrong: a cost below 1, a bucket
// without an id or a limit, the same bucket twice, more than 16 buckets, a wait that
// cannot be counted. Only the caller at fault gets it, and Redis is not asked.
var ErrBadRequest = errors.New("ratelimit: bad request")

// maxID bounds the part of a key that comes from outside, in bytes.
const maxID = 256

// maxBuckets bounds the buckets of one request; a handful is usual.
const maxBuckets = 16

// Bucket is whose tokens are counted, and how many there are. Name says what kind of
// thing it is ("buyer"), ID which one ("ann"). A Bucket whose limit is limit.Off is
// skipped.
type Bucket struct {
	// Name is 1 to 32 of [A-Za-z0-9._-]: it stands in keys, metrics and headers.
	Name string
	// ID is 1 to 256 bytes of any kind.
	ID    string
	Limit limit.Limit

	queues bool // a queue of Wait, which counts those who wait as well
}

// key is the only place where a bucket's Redis key is made. What is in braces is
// the hash tag, so each bucket has a Redis Cluster slot of its own.
func (b Bucket) key(prefix string) string {
	key := prefix + ":{" + b.Name + ":" + b.ID + "}"
	if b.queues {
		key += ":queue"
	}
	return key
}

// brings is the time in which so many tokens come in.
func (b Bucket) brings(tokens int64) time.Duration {
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
		return fmt.Errorf("%w: bucket %q has no limit (limit.Off is one)", ErrBadRequest, b.Name)
	}
	return nil
}

// isForeign tells whether r may not be in a bucket's name. Package strings looks for one of
// many letters more slowly: it was a microsecond of each order.
func isForeign(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
}
