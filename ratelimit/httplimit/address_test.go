package httplimit

import (
	"testing"

	"flashsale/ratelimit"
	"flashsale/ratelimit/limit"
)

// An IPv6 address is counted by its /64.
func TestIP(t *testing.T) {
	five := parse(t, "5/s")
	for addr, network := range map[string]string{
		"192.0.2.7":            "192.0.2.7",
		"::ffff:192.0.2.8":     "192.0.2.8",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::1": "2001:db8:1:2::/64",
		"fe80::1%eth0":         "fe80::/64",
		"not an address":       "unknown",
	} {
		if got, want := IP(addr, five), (ratelimit.Bucket{Name: "ip", ID: network, Limit: five}); got != want {
			t.Errorf("bucket of %s: got %+v, want %+v", addr, got, want)
		}
	}
}

// An IPv6 address has a second bucket for its /48, if ten times the limit can be counted.
func TestAddress(t *testing.T) {
	for _, c := range []struct{ addr, limit, site, tenfold string }{
		{"192.0.2.7", "5/s:3", "", ""},
		{"not an address", "5/s:3", "", ""},
		{"2001:db8:1:2::3", "5/s:3", "2001:db8:1::/48", "50/s:30"},
		{"2001:db8:1:2::3", "0.5/s:3", "2001:db8:1::/48", "5/s:30"},
		{"2001:db8:1:2::3", "1/7s:1", "2001:db8:1::/48", "10/7s:10"},
		{"2001:db8:1:2::3", "1/h:1000000", "2001:db8:1::/48", "10/h:10000000"},
		{"2001:db8:1:2::3", "1/1000000007us:4000000", "", ""},
		{"2001:db8:1:2::3", "off", "", ""},
	} {
		buckets := AddressBuckets(c.addr, parse(t, c.limit))
		if buckets[0] != IP(c.addr, parse(t, c.limit)) {
			t.Errorf("buckets of %s: got %+v, want that of IP first", c.addr, buckets)
		}
		want := []ratelimit.Bucket{}
		if c.site != "" {
			want = append(want, ratelimit.Bucket{Name: "ip48", ID: c.site, Limit: parse(t, c.tenfold)})
		}
		if len(buckets) != 1+len(want) || len(want) > 0 && buckets[1] != want[0] {
			t.Errorf("%s at %s: got buckets %+v, want %+v after that of IP", c.addr, c.limit, buckets, want)
		}
	}
	if l := AddressBuckets("2001:db8::1", limit.Limit{})[0].Limit; l != (limit.Limit{}) {
		t.Errorf("zero limit: got %v, want the zero limit", l)
	}
}
