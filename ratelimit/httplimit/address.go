package httplimit

import (
	"net/netip"
	"strings"
	"time"

	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// IP is the bucket of one client address, which is text without a port. Its ID is the
// address's Network.
func IP(addr string, l limit.Limit) ratelimit.Bucket {
	return ratelimit.Bucket{Name: "ip", ID: Network(addr), Limit: l}
}

// siteFactor is how many times the limit of a /64 its /48 has.
const siteFactor = 10

// Address returns all buckets of one client address: IP's and, for IPv6, a bucket of
// the address's /48 with ten times the limit, since many providers give one subscriber a
// /48. If ten times the limit is too large to count, there is no second bucket.
func Address(addr string, l limit.Limit) []ratelimit.Bucket {
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

// Network is what an address is counted as: an IPv4 address as itself, an IPv6 address
// as its /64. That is the least that one subscriber gets, who would otherwise have 2^64
// buckets. What isn't an address is "unknown": all of those share one bucket, so hiding
// an address is no way round a limit.
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
