package auth

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"flashsale/loadtest/servers/servertest/check"
)

// A cached token is rejected from the exact time of its expiry on. A broken twin, a map
// without this check, fails the test.
func TestCachedTokensExpire(t *testing.T) {
	v, c := verifier(t)
	token, err := v.Sign("b1", false, time.Minute)
	check.Must(t, err)
	check := func(verify func(string) (Identity, error)) error {
		for _, at := range []struct {
			after time.Duration
			good  bool
		}{{0, true}, {time.Minute - time.Nanosecond, true}, {time.Minute, false}, {time.Hour, false}} {
			c.set(noon.Add(at.after))
			if _, err := verify(token); (err == nil) != at.good || err != nil && !errors.Is(err, ErrUnauthorized) {
				return fmt.Errorf("token verified after %v: %v", at.after, err)
			}
		}
		return nil
	}
	if err := check(v.Verify); err != nil {
		t.Errorf("cached tokens at their expiry: %v", err)
	}
	if n := v.cache.Len(); n != 0 {
		t.Errorf("cached expired tokens: got %d, want 0", n)
	}
	remembered := map[string]Identity{}
	if check(func(token string) (Identity, error) {
		if id, known := remembered[token]; known {
			return id, nil
		}
		id, err := v.Verify(token)
		remembered[token] = id
		return id, err
	}) == nil {
		t.Error("cache that keeps expired tokens: the check passed, want a failure")
	}
}

// The cache stays within its bound, and an evicted token is still valid.
func TestCacheIsBounded(t *testing.T) {
	v, _ := verifier(t)
	const entries = 256
	v.cache.Resize(entries)
	var tokens []string
	for n := range 10 * entries {
		token, err := v.Sign(fmt.Sprintf("b%d", n), false, time.Minute)
		check.Must(t, err)
		tokens = append(tokens, token)
	}
	var wg sync.WaitGroup
	for from := range 4 {
		wg.Go(func() {
			for n := from; n < 2*len(tokens); n += 4 {
				want := fmt.Sprintf("b%d", n%len(tokens))
				if id, err := v.Verify(tokens[n%len(tokens)]); err != nil || id.Buyer != want {
					t.Errorf("verified token: got %+v, error %v, want buyer %s", id, err, want)
				}
				if _, err := v.Verify(fmt.Sprintf("%s%d", tokens[0], n)); err == nil {
					t.Error("token with a changed signature: got no error, want one")
				}
			}
		})
	}
	wg.Wait()
	if n := v.cache.Len(); n != entries {
		t.Errorf("cached tokens: got %d, want %d", n, entries)
	}
}
