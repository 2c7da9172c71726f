package inventory

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A keeper whose gate is missing receives ErrNoGate, after which it rebuilds the gate.
func TestNoGate(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		g := newGate(rdb, patient)
		_, release := g.ReleaseHolds(t.Context(), "gone", 1, []string{"o"})
		for what, err := range map[string]error{
			"release": release,
			"drop":    g.DropHolds(t.Context(), "gone", 1, []string{"o"}),
			"terms":   g.SetTerms(t.Context(), "gone", 1, Terms{}),
		} {
			if !errors.Is(err, ErrNoGate) {
				t.Errorf("%s without a gate: got error %v, want %v", what, err, ErrNoGate)
			}
		}
	})
}
