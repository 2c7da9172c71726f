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
	sale    string // prefix of the SKUs
	skus    int
	header  string // a header line more, or ""
	seconds int
}

// wrkResult is what wrk saw.
type wrkResult struct {
	took                                  time.Duration
	requests                              int64 // answered
	connect, read, write, status, timeout int64 // of them, or beside them, errors; status counts answers from 400 on
	p50, p99                              time.Duration
}

// good is how many answers were 2xx: there are no redirections here.
func (r wrkResult) good() int64 { return r.requests - r.status }

func (r wrkResult) perSecond(n int64) float64 { return float64(n) / r.took.Seconds() }

// wrk runs one load against the server at addr.
func (l *lab) wrk(ctx context.Context, addr string, o load) (wrkResult, error) {
	script := filepath.Join(l.dir, "wrk.lua")
	if err := os.WriteFile(script, wrkLua, 0o600); err != nil {
		return wrkResult{}, fmt.Errorf("script for wrk: %w", err)
	}
	threads := min(wrkThreads, l.cfg.Connections)
	cmd := exec.CommandContext(ctx, wrkTool.program,
		"-t", strconv.Itoa(threads), "-c", strconv.Itoa(l.cfg.Connections), "-d", strconv.Itoa(o.seconds)+"s",
		"-s", script, "http://"+addr, "--",
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
func parseWrk(out string) (wrkResult, error) {
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(line, "totals ")
		if !ok {
			continue
		}
		var r wrkResult
		var took, p50, p99 int64
		_, err := fmt.Sscan(rest, &took, &r.requests, &r.connect, &r.read, &r.write, &r.status, &r.timeout, &p50, &p99)
		r.took, r.p50, r.p99 = micros(took), micros(p50), micros(p99)
		if err != nil || r.took <= 0 || r.status > r.requests {
			return wrkResult{}, fmt.Errorf("wrk: totals make no sense: %q", strings.TrimSpace(line))
		}
		return r, nil
	}
	return wrkResult{}, fmt.Errorf("wrk: no totals in its output: %q", out)
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
