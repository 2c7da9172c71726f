package limit

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// timeUnits are the units of a rate's time, in the order in which String tries them.
var timeUnits = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"ms", time.Millisecond}}

// Parse reads "rate/time[:burst]", such as 5/s:10, 0.5/s:3, 100/m or 1/7s:1, and "off".
// The rate is a decimal number above 0. The time is ms, s, m or h, or a duration with a
// number, such as 7s or 1m30s. The burst is a whole number of tokens; the default is the
// rate's number, rounded up. Errors wrap ErrBad and name the wrong part.
func Parse(text string) (Limit, error) {
	if text == "off" {
		return Off, nil
	}
	l, err := parse(text)
	if err != nil {
		return Limit{}, fmt.Errorf("%w (in %q; want a limit such as 5/s:10, 0.5/s, 100/m:20 or off)", err, text)
	}
	return l, nil
}

func parse(text string) (Limit, error) {
	rateAndTime, burstText, hasBurst := strings.Cut(text, ":")
	rateText, timeText, hasTime := strings.Cut(rateAndTime, "/")
	if !hasTime {
		return Limit{}, fmt.Errorf("%w: no time after the rate", ErrBad)
	}
	rate, err := parseRate(rateText)
	if err != nil {
		return Limit{}, err
	}
	per, err := parseTime(timeText)
	if err != nil {
		return Limit{}, err
	}
	burst := -new(big.Int).Div(new(big.Int).Neg(rate.Num()), rate.Denom()).Int64() // the rate, rounded up
	if hasBurst {
		if burst, err = strconv.ParseInt(burstText, 10, 64); err != nil {
			return Limit{}, fmt.Errorf("%w: the burst %q is not a whole number", ErrBad, burstText)
		}
	}
	// 0.5 a second becomes 1 token in 2 seconds: the fraction's denominator multiplies
	// the time, and both are whole numbers.
	stretched := new(big.Int).Mul(big.NewInt(int64(per)), rate.Denom())
	if !rate.Num().IsInt64() || !stretched.IsInt64() {
		return Limit{}, fmt.Errorf("%w: the rate %q has too many digits", ErrBad, rateText)
	}
	return New(rate.Num().Int64(), time.Duration(stretched.Int64()), burst)
}

// parseRate reads a plain decimal number. Its length is bounded because limits may come
// from outside, and a long number would take much memory.
func parseRate(text string) (*big.Rat, error) {
	rate, ok := new(big.Rat), len(text) <= 32 && strings.Trim(text, "0123456789.") == ""
	if ok {
		rate, ok = rate.SetString(text)
	}
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: the rate %q is not a plain decimal number", ErrBad, text)
	case rate.Sign() == 0:
		return nil, fmt.Errorf("%w: the rate must be above 0", ErrBad)
	}
	return rate, nil
}

func parseTime(text string) (time.Duration, error) {
	for _, u := range timeUnits {
		if text == u.name {
			return u.per, nil
		}
	}
	per, err := time.ParseDuration(text)
	if err != nil || per <= 0 {
		return 0, fmt.Errorf("%w: the time %q is not one of ms, s, m, h nor a duration such as 7s", ErrBad, text)
	}
	return per, nil
}

// String returns a text that Parse reads as the same limit. The text counts by the
// second, minute, hour or millisecond, whichever first gives a short number. If none
// does, it counts by another time.
func (l Limit) String() string {
	switch {
	case l.IsOff():
		return "off"
	case l.rate == 0:
		return "not set"
	}
	for _, u := range timeUnits {
		perUnit := big.NewRat(u.per.Microseconds(), l.token)
		perUnit.Mul(perUnit, new(big.Rat).SetInt64(l.rate))
		if digits, exact := perUnit.FloatPrec(); exact && digits <= 3 {
			return fmt.Sprintf("%s/%s:%d", perUnit.FloatString(digits), u.name, l.burst)
		}
	}
	return fmt.Sprintf("%d/%v:%d", l.rate, time.Duration(l.token)*time.Microsecond, l.burst)
}

// UnmarshalText parses text. With it, a Limit can be a flag or a configuration value.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}

// MarshalText returns String, which UnmarshalText can read.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }
