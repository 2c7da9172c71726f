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

// wrkThreads suffice for the connections. One thread uses at most one core.
const wrkThreads = 2

// A load describes the requests of wrk. This project and its counterpart get the same
// bytes, except for the port.
type load struct {
	sale   string // prefix of the SKUs
	skus   int
	header string // one more header line, or ""
}

// A wrkResult contains the totals that wrk counted.
type wrkResult struct {
	took     time.Duration
	requests int64 // answered requests
	connect  int64 // failed connections
	status   int64 // answers with status 400 or above
}

// good returns the number of 2xx answers. The servers send no redirections.
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
		return r, fmt.Errorf("wrk: no answer from %s", addr)
	case r.connect > 0:
		return r, fmt.Errorf("wrk: %d of %d connections to %s failed", r.connect, l.cfg.Connections, addr)
	}
	return r, nil
}

// parseWrk parses the line that function done of wrk.lua prints.
func parseWrk(out string) (r wrkResult, err error) {
	var took int64
	_, err = fmt.Sscan(found(`(?m)^totals (.*)$`, []byte(out)), &took, &r.requests, &r.connect, &r.status)
	r.took = time.Duration(took) * time.Microsecond
	if err != nil || r.took <= 0 || r.status > r.requests {
		return wrkResult{}, fmt.Errorf("parse the output of wrk: it has no valid totals: %q", out)
	}
	return r, nil
}

// crowdSize is the number of buyers. The keeper reads the earlier orders of its
// buyers, so a few buyers with many orders each would not represent a sale.
const crowdSize = 20_000

// A crowd contains the buyers' tokens, which are signed before the measurements.
type crowd struct {
	tokens []string
	file   string // path of a file with one token per line, for wrk
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
		return nil, fmt.Errorf("write the tokens for wrk: %w", err)
	}
	return c, nil
}
