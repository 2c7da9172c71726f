package check

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Rand returns a source of random numbers for one goroutine. If the test fails, its
// seed is printed, and FLASHSALE_TEST_SEED repeats it.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("FLASHSALE_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		Must(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat the random numbers: FLASHSALE_TEST_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
