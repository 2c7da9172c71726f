// Package limit describes limits: a rate and a burst, as a value and as text. A bucket
// with the limit 5/s:10 holds 10 tokens (the burst) and is refilled with 5 tokens a
// second (the rate).
package limit

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// ErrBad is wrapped by all errors about invalid limits.
var ErrBad = errors.New("ratelimit: bad limit")

// maxLevel is the size of the largest bucket, in units (see Limit.Units). Lua's numbers are exact
// up to 2^53, and the script adds two levels of at most maxLevel. Two levels of microseconds also
// fit into a time.Duration.
const maxLevel = 1 << 52

// A Limit is a rate and a burst: a bucket that holds burst tokens and is refilled at the
// rate. New and Parse return only valid Limits. Equal limits are ==, however they were
// written (60/m:60 is 1/s:60). The zero Limit is invalid, so that a forgotten limit is an
// error.
type Limit struct {
	burst int64 // tokens
	token int64 // units in one token
	rate  int64 // units refilled per microsecond
	off   bool
}

// Off is the limit that allows everything.
var Off = Limit{off: true}

// New returns a limit of the given tokens in each period per, and at most burst tokens at once.
// All three must be positive, and per must be a whole number of microseconds. A full bucket must
// not exceed 2^52 units (see Units). That is enough for a burst of a million at one token an
// hour. Errors wrap ErrBad.
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
	for rest != 0 { // greatest common divisor
		divisor, rest = rest, divisor%rest
	}
	l := Limit{burst: burst, token: per.Microseconds() / divisor, rate: tokens / divisor}
	if high, low := bits.Mul64(uint64(burst), uint64(l.token)); high != 0 || low > maxLevel {
		return Limit{}, fmt.Errorf("%w: a burst of %d at so slow a rate is too large to count exactly", ErrBad, burst)
	}
	return l, nil
}

// IsOff reports whether l is Off.
func (l Limit) IsOff() bool { return l.off }

// Burst returns the largest number of tokens that can be taken at once, or 0 for Off.
func (l Limit) Burst() int64 { return l.burst }

// Units returns the number of units in a token, and the number of units refilled in a
// microsecond. Scripts count a bucket in these whole numbers. Nothing is rounded, so asking often
// or at odd moments neither gains nor loses a token. At 5 tokens a second, a token has 200,000
// units and a microsecond refills 1. Both numbers are 0 for Off.
func (l Limit) Units() (token, perMicrosecond int64) { return l.token, l.rate }

// Window returns the time in which an empty bucket is refilled, rounded up to whole
// microseconds. Within any time t, at most Burst + Burst*t/Window tokens are given out.
func (l Limit) Window() time.Duration {
	if l.rate == 0 {
		return 0
	}
	return time.Duration((l.burst*l.token+l.rate-1)/l.rate) * time.Microsecond
}
