package bench

import (
	"bytes"
	"context"
	_ "embed" // wrk.lua
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed wrk.lua
var wrkLua []byte

// wrkThreads are enough for the connections, and no more than a core each.
const wrkThreads = 2

// A load is what wrk sends. The same one goes to ours and to the counterpart,
// byte by byte, but for the port.
type load struct {
	sale   string // prefix of the SKUs
	skus   int
	header string // a header line more, or ""
}

// wrkResult is what wrk saw.
type wrkResult struct {
	took     time.Duration
	requests int64 // answered
	connect  int64 // connections that failed
	status   int64 // answers from 400 on
}

// good is how many answers were 2xx: there are no redirections here.
func (r wrkResult) good() int64 { return r.requests - r.status }

func (r wrkResult) perSecond(n int64) float64 { return float64(n) / r.took.Seconds() }

func (l *bench) script() string { return filepath.Join(l.dir, "wrk.lua") }

// wrk runs one load against the server at addr.
func (l *bench) wrk(ctx context.Context, addr string, o load) (wrkResult, error) {
	threads := min(wrkThreads, l.cfg.Connections)
	cmd := exec.CommandContext(ctx, wrkProgram,
		"-t", strconv.Itoa(threads), "-c", strconv.Itoa(l.cfg.Connections), "-d", strconv.Itoa(l.cfg.Seconds)+"s",
		"-s", l.script(), "http://"+addr, "--",
		l.crowd.file, strconv.Itoa(threads), l.next("key"), o.sale, strconv.Itoa(o.skus), o.header)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return wrkResult{}, fmt.Errorf("wrk: %w: %s", errors.Join(err, ctx.Err()), bytes.TrimSpace(out))
	}
	r, err := parseWrk(string(out))
	switch {
	case err != nil:
		return r, err
	case r.requests == 0:
		return r, fmt.Errorf("wrk: not one answer from %s", addr)
	case r.connect > 0:
		return r, fmt.Errorf("wrk: %d of %d connections to %s failed", r.connect, l.cfg.Connections, addr)
	}
	return r, nil
}

// parseWrk finds the line that the script's done function prints.
func parseWrk(out string) (r wrkResult, err error) {
	var took int64
	_, err = fmt.Sscan(found(`(?m)^totals (.*)$`, []byte(out)), &took, &r.requests, &r.connect, &r.status)
	r.took = time.Duration(took) * time.Microsecond
	if err != nil || r.took <= 0 || r.status > r.requests {
		return wrkResult{}, fmt.Errorf("wrk: no totals in its output, or none that make sense: %q", out)
	}
	return r, nil
}

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

func newCrowd(sign func(subject string, admin bool) (string, error), dir string) (*crowd, error) {
	c := &crowd{tokens: make([]string, crowdSize), file: filepath.Join(dir, "tokens")}
	for i := range c.tokens {
		var err error
		if c.tokens[i], err = sign(fmt.Sprintf("buyer-%05d", i), false); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(c.file, []byte(strings.Join(c.tokens, "\n")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("tokens for wrk: %w", err)
	}
	return c, nil
}
