package ratelimit

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// ErrBadRequest is wrapped when what Allow was given cannot be asked: a cost
// below 1, a bucket without an id or a limit, the same bucket twice. Only the
// caller at fault gets it, and Redis is not asked for it.
var ErrBadRequest = errors.New("ratelimit: bad request")

// maxID bounds the part of a key that comes from outside, in bytes.
const maxID = 256

// maxBuckets bounds the buckets of one request; a handful is usual.
const maxBuckets = 16

// Bucket is one counted thing: whose tokens (Name says of which kind, ID
// which one) and how many. A Bucket whose limit is Off is skipped.
type Bucket struct {
	// Name is 1 to 32 of [A-Za-z0-9._-]: it stands in keys, metrics and headers.
	Name string
	// ID is 1 to 256 bytes of any kind.
	ID    string
	Limit Limit

	queues bool // Wait's: it counts those who wait as well
}

// Buyer is the bucket of one buyer.
func Buyer(id string, limit Limit) Bucket { return Bucket{Name: "buyer", ID: id, Limit: limit} }

// Route is the bucket that all callers of one route share.
func Route(name string, limit Limit) Bucket { return Bucket{Name: "route", ID: name, Limit: limit} }

// SKU is the bucket that all who want one SKU share.
func SKU(sku string, limit Limit) Bucket { return Bucket{Name: "sku", ID: sku, Limit: limit} }

// IP is the bucket of one client address, as text without a port: of its
// Network.
func IP(addr string, limit Limit) Bucket {
	return Bucket{Name: "ip", ID: Network(addr), Limit: limit}
}

// siteFactor is how many times what one /64 may do its whole /48 may.
const siteFactor = 10

// Address are all buckets of one client address: IP's and, of an IPv6 address,
// that of its /48, which many providers give to one subscriber, with ten times
// the limit. A limit too large to be counted ten times has no second bucket.
func Address(addr string, limit Limit) []Bucket {
	buckets := []Bucket{IP(addr, limit)}
	if site := prefix(addr, 48); site != buckets[0].ID {
		more, err := NewLimit(siteFactor*limit.rate, micros(limit.unit), siteFactor*limit.burst)
		if err != nil {
			more = Off
		}
		buckets = append(buckets, Bucket{Name: "ip48", ID: site, Limit: more})
	}
	return buckets
}

// Network is whom an address counts for: itself or, of an IPv6 address, its /64,
// the least that one subscriber gets: by single addresses it would have 2^64
// buckets. What isn't an address is "unknown", so that hiding one's address is no
// way round a limit.
func Network(addr string) string { return prefix(addr, 64) }

func prefix(addr string, bits int) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return "unknown"
	}
	ip = ip.Unmap().WithZone("") // ::ffff:192.0.2.1 is 192.0.2.1
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, bits).Masked().String()
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
	return micros(tokens * b.Limit.unit / b.Limit.rate)
}

func (b Bucket) check() error {
	if b.Name == "" || len(b.Name) > 32 || strings.Trim(b.Name, letters) != "" {
		return fmt.Errorf("%w: the bucket's name %q is not 1 to 32 of [A-Za-z0-9._-]", ErrBadRequest, b.Name)
	}
	if b.ID == "" || len(b.ID) > maxID {
		return fmt.Errorf("%w: the id of bucket %q has %d bytes, not 1 to %d", ErrBadRequest, b.Name, len(b.ID), maxID)
	}
	if b.Limit == (Limit{}) {
		return fmt.Errorf("%w: bucket %q has no limit (Off is one)", ErrBadRequest, b.Name)
	}
	return nil
}

// letters are those of a bucket's name.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
