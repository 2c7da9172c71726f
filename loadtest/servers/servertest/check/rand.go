package check

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Rand returns a source of random numbers with a random seed. It is not safe for
// concurrent use. If the test fails, it prints the seed. FLASHSALE_TEST_SEED sets the
// seed, to repeat the numbers of a failed test.
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
