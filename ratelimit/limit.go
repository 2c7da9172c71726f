package ratelimit

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// ErrBadLimit is wrapped by every error about a limit that cannot be used.
var ErrBadLimit = errors.New("ratelimit: bad limit")

// maxLevel bounds a full bucket, counted in level units (see Limit). Lua's
// numbers are doubles, exact up to 2^53, and the script adds two such levels.
const maxLevel = 1 << 52

// Limit is a rate and a burst: a bucket that holds burst tokens and is refilled
// at the rate. Limits come from NewLimit and ParseLimit, so one that exists is
// valid; equal limits are ==, however they were written (60/m is 1/s). The zero
// Limit is one that was forgotten, and is refused where it is used.
//
// A bucket's level is a whole number of units, of which one token has `unit`
// and one microsecond brings `rate`: at 5 tokens a second a token is 200,000
// units and a microsecond brings 1. Nothing is ever rounded, so polling a
// bucket often, or at odd moments, neither gains nor loses a token.
type Limit struct {
	burst int64 // tokens
	unit  int64 // level units in one token
	rate  int64 // level units refilled per microsecond
	off   bool
}

// Off is no limit.
var Off = Limit{off: true}

// NewLimit returns the limit of tokens every per, with at most burst at once.
// All three are positive, per is a whole number of microseconds, and the
// product of burst and per stays within what a script counts exactly (at one
// token an hour, a burst of a million is fine). Errors wrap ErrBadLimit.
func NewLimit(tokens int64, per time.Duration, burst int64) (Limit, error) {
	switch {
	case tokens < 1:
		return Limit{}, fmt.Errorf("%w: the rate must be above 0", ErrBadLimit)
	case per < time.Microsecond || per%time.Microsecond != 0:
		return Limit{}, fmt.Errorf("%w: the rate's time %v is not a whole number of microseconds", ErrBadLimit, per)
	case burst < 1:
		return Limit{}, fmt.Errorf("%w: the burst must be at least 1", ErrBadLimit)
	case tokens > maxLevel:
		return Limit{}, fmt.Errorf("%w: the rate is too high to count", ErrBadLimit)
	}
	common := gcd(tokens, per.Microseconds())
	l := Limit{burst: burst, unit: per.Microseconds() / common, rate: tokens / common}
	if high, low := bits.Mul64(uint64(burst), uint64(l.unit)); high != 0 || low > maxLevel {
		return Limit{}, fmt.Errorf("%w: a burst of %d at so slow a rate is too large to count exactly", ErrBadLimit, burst)
	}
	return l, nil
}

// IsOff tells whether it is Off.
func (l Limit) IsOff() bool { return l.off }

// Burst is the most tokens that can be taken at once; 0 when Off.
func (l Limit) Burst() int64 { return l.burst }

// Window is the time in which an empty bucket becomes full, rounded up to
// whole microseconds. Within any stretch of time t at most
// Burst + Burst*t/Window tokens are given out.
func (l Limit) Window() time.Duration {
	if l.rate == 0 {
		return 0
	}
	return micros((l.full() + l.rate - 1) / l.rate)
}

// full is the level of a full bucket.
func (l Limit) full() int64 { return l.burst * l.unit }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// micros is a time as long as a Duration can say.
func micros(n int64) time.Duration {
	const longest = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(n, longest)) * time.Microsecond
}
