package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/auth"
)

// crowdSize is how many buyers take part. A measurement in which each of them
// orders a few times is nearer to a sale than one in which few order often:
// the keeper reads what its buyers have ordered before.
const crowdSize = 20_000

// A crowd is the buyers of a run, with their tokens signed before anything is
// measured.
type crowd struct {
	tokens []string
	file   string // the same, a line each, for wrk
}

func newCrowd(v *auth.Verifier, dir string) (*crowd, error) {
	c := &crowd{tokens: make([]string, crowdSize), file: filepath.Join(dir, "tokens")}
	for i := range c.tokens {
		var err error
		if c.tokens[i], err = v.Sign(fmt.Sprintf("buyer-%05d", i), false, 24*time.Hour); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(c.file, []byte(strings.Join(c.tokens, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("tokens for wrk: %w", err)
	}
	return c, nil
}
