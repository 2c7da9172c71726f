package httplimit

import (
	"net/netip"
	"strings"
	"time"

	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// IP returns the bucket of a client address, given as text without a port. Its ID is the
// Network of the address.
func IP(addr string, l limit.Limit) ratelimit.Bucket {
	return ratelimit.Bucket{Name: "ip", ID: Network(addr), Limit: l}
}

// siteFactor is the limit of a /48 divided by the limit of a /64.
const siteFactor = 10

// AddressBuckets returns all buckets of a client address: the bucket of IP and, for IPv6, a
// bucket of the address's /48 with ten times the limit, because many providers give a
// subscriber a /48. If ten times the limit is too large to count, there is no second
// bucket.
func AddressBuckets(addr string, l limit.Limit) []ratelimit.Bucket {
	buckets := []ratelimit.Bucket{IP(addr, l)}
	if strings.HasSuffix(buckets[0].ID, "/64") {
		token, rate := l.Units()
		more, err := limit.New(siteFactor*rate, time.Duration(token)*time.Microsecond, siteFactor*l.Burst())
		if err == nil {
			buckets = append(buckets, ratelimit.Bucket{Name: "ip48", ID: prefix(addr, 48), Limit: more})
		}
	}
	return buckets
}

// Network returns the network by which an address is counted: an IPv4 address itself, or the /64
// of an IPv6 address. A /64 is the least that one subscriber gets, and counting single addresses
// would give the subscriber 2^64 buckets. Text that is not an address is "unknown". All clients
// with an unknown address share one bucket, so hiding an address does not avoid a limit.
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
