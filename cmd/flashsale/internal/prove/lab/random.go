package lab

import (
	"math/rand/v2"
	"time"
)

// NewRand returns the random numbers of a seed. Each series of a seed is independent.
func NewRand(seed int64, series uint64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), series))
}

// RandomDuration returns a random duration from least to most.
func RandomDuration(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)+1))
}
