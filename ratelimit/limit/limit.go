// Package limit is what a bucket allows: a rate and a burst, as a value and as text. A
// bucket of limit 5/s:10 holds 10 tokens (the burst) and gets 5 a second (the rate).
// Package ratelimit asks Redis whether a request may pass.
package limit

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// ErrBad is wrapped by every error about a limit that cannot be used.
var ErrBad = errors.New("ratelimit: bad limit")

// maxLevel bounds a full bucket, counted in units (see Limit). Lua's numbers are
// doubles, exact up to 2^53, and the script adds two such levels. As so many
// microseconds, both together are still a time.Duration.
const maxLevel = 1 << 52

// Limit is a rate and a burst: a bucket that holds burst tokens and is refilled
// at the rate. New and Parse return valid Limits only. Equal limits are ==, however
// they were written (60/m:60 is 1/s:60). The zero Limit counts as one that was
// forgotten: whoever uses it gets an error.
type Limit struct {
	burst int64 // tokens
	token int64 // units in one token
	rate  int64 // units refilled per microsecond
	off   bool
}

// Off is the limit that limits nothing.
var Off = Limit{off: true}

// New returns the limit of so many tokens in each time per, and at most burst at once.
// All three are positive, and per is a whole number of microseconds. A full bucket must
// stay within 2^52 units (see Units): at one token an hour, a burst of a million does.
// Errors wrap ErrBad.
func New(tokens int64, per time.Duration, burst int64) (Limit, error) {
	switch {
	case tokens < 1:
		return Limit{}, fmt.Errorf("%w: the rate must be above 0", ErrBad)
	case per < time.Microsecond || per%time.Microsecond != 0:
		return Limit{}, fmt.Errorf("%w: the rate's time %v is not a whole number of microseconds", ErrBad, per)
	case burst < 1:
		return Limit{}, fmt.Errorf("%w: the burst must be at least 1", ErrBad)
	case tokens > maxLevel:
		return Limit{}, fmt.Errorf("%w: the rate is too high to count", ErrBad)
	}
	divisor, rest := tokens, per.Microseconds()
	for rest != 0 { // Euclid's
		divisor, rest = rest, divisor%rest
	}
	l := Limit{burst: burst, token: per.Microseconds() / divisor, rate: tokens / divisor}
	if high, low := bits.Mul64(uint64(burst), uint64(l.token)); high != 0 || low > maxLevel {
		return Limit{}, fmt.Errorf("%w: a burst of %d at so slow a rate is too large to count exactly", ErrBad, burst)
	}
	return l, nil
}

// IsOff tells whether l is Off.
func (l Limit) IsOff() bool { return l.off }

// Burst is the most tokens that can be taken at once; 0 when Off.
func (l Limit) Burst() int64 { return l.burst }

// Units tells how many units a token has, and how many units a microsecond brings.
// Scripts count a bucket in these whole numbers, so nothing is rounded: asking often, or
// at odd moments, neither gains nor loses a token. At 5 tokens a second a token is
// 200,000 units and a microsecond brings 1. Both are 0 when Off.
func (l Limit) Units() (token, perMicrosecond int64) { return l.token, l.rate }

// Window is the time in which an empty bucket becomes full, rounded up to
// whole microseconds. Within any stretch of time t at most
// Burst + Burst*t/Window tokens are given out.
func (l Limit) Window() time.Duration {
	if l.rate == 0 {
		return 0
	}
	return time.Duration((l.burst*l.token+l.rate-1)/l.rate) * time.Microsecond
}
