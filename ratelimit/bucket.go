package ratelimit

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrBadRequest is wrapped when what Allow was given cannot be asked: a cost
// below 1, a bucket without an id, the same bucket twice. Only the caller at
// fault gets it, and Redis is not asked for it.
var ErrBadRequest = errors.New("ratelimit: bad request")

// maxID bounds the part of a key that comes from outside, in bytes.
const maxID = 256

// maxBuckets bounds the buckets of one request; a handful is usual.
const maxBuckets = 16

// Bucket is one counted thing: whose tokens (Name says of which kind, ID
// which one) and how many. A Bucket whose limit is off is skipped.
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

// IP is the bucket of one client address, as text without a port. An IPv6
// client is counted by its /64, the least that one subscriber gets: by single
// addresses it would have 2^64 buckets. What isn't an address shares one
// bucket, so that hiding one's address is no way round the limit.
func IP(addr string, limit Limit) Bucket {
	return Bucket{Name: "ip", ID: network(addr), Limit: limit}
}

func network(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return "unknown"
	}
	ip = ip.Unmap().WithZone("") // ::ffff:192.0.2.1 is 192.0.2.1
	if ip.Is4() {
		return ip.String()
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return "unknown"
	}
	return prefix.String()
}

// key is the only place where a bucket's Redis key is made. Everything after
// "rate:" is the hash tag, so each bucket has a Redis Cluster slot of its own.
func (b Bucket) key() string {
	key := "rate:{" + b.Name + ":" + b.ID + "}"
	if b.queues {
		key += ":queue"
	}
	return key
}

func (b Bucket) check() error {
	if !validName(b.Name) {
		return fmt.Errorf("%w: the bucket's name %q is not 1 to 32 of [A-Za-z0-9._-]", ErrBadRequest, b.Name)
	}
	if b.ID == "" || len(b.ID) > maxID {
		return fmt.Errorf("%w: the id of bucket %q has %d bytes, not 1 to %d", ErrBadRequest, b.Name, len(b.ID), maxID)
	}
	return nil
}

func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 32
}
