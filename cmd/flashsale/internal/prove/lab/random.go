package lab

import (
	"math/rand/v2"
	"time"
)

// Numbers are a series of random numbers of a seed, one for each who draws.
func Numbers(seed int64, series uint64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), series))
}

// Between draws a time.
func Between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)+1))
}
