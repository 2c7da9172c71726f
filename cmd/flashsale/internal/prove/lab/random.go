package lab

import (
	"math/rand/v2"
	"time"
)

// Numbers returns the random numbers of a seed. Each series of a seed is independent.
func Numbers(seed int64, series uint64) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), series))
}

// Between returns a random duration from least to most.
func Between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)+1))
}
