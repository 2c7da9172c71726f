package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
)

// faults are all there are. Names do not change: a plan is drawn from the list.
var faults = []*fault{
	{"node-loses-mysql", 2, 5 * time.Second, 6500 * time.Millisecond, true, loseMySQL},
	{"node-loses-redis", 2, 5 * time.Second, 6500 * time.Millisecond, true, loseRedis},
	{"node-killed", 1, 500 * time.Millisecond, 3 * time.Second, true, killNode},
	{"node-paused", 1, 1500 * time.Millisecond, 3500 * time.Millisecond, true, pauseNode},
	{"commit-silent", 2, 4 * time.Second, 5500 * time.Millisecond, true, silenceCommits},
	{"commit-late", 1, 1500 * time.Millisecond, 4 * time.Second, true, delayCommits},
	{"commit-answer-lost", 1, 500 * time.Millisecond, time.Second, true, loseCommitAnswers},
	{"order-late", 1, 4500 * time.Millisecond, 5 * time.Second, true, delayOrders},
	{"scripts-late", 1, 1500 * time.Millisecond, 4 * time.Second, true, delayScripts},
	{"script-answer-lost", 1, 500 * time.Millisecond, time.Second, true, loseScriptAnswers},
	{"network-slow", 2, time.Second, 2500 * time.Millisecond, true, slowNetwork},
	{"redis-refuses-briefly", 3, 200 * time.Millisecond, time.Second, false, refuseWrites},
	{"redis-refuses", 3, 6 * time.Second, 7500 * time.Millisecond, false, refuseWrites},
	{"redis-fails-over", 3, 200 * time.Millisecond, 1500 * time.Millisecond, false, failOver},
	{"redis-flushed", 1, 0, 0, false, flush},
	{"redis-loses-a-key", 5, 0, 0, false, loseKey},
	{"redis-restarted", 3, 100 * time.Millisecond, time.Second, false, restartRedis},
	{"redis-gone", 3, 6 * time.Second, 7500 * time.Millisecond, false, restartRedis},
	{"queue-left-behind", 1, 6 * time.Second, 7500 * time.Millisecond, false, leaveQueue},
	{"change-held-up", 1, 500 * time.Millisecond, 1500 * time.Millisecond, false, holdUpChange},
	{"mysql-restarted", 1, 100 * time.Millisecond, time.Second, false, restartMySQL},
	{"nodes-go-over-apart", 2, 0, 3 * time.Second, false, goOverApart},
	{"stores-parted", 1, 6 * time.Second, 7500 * time.Millisecond, false, partition},
	{"redis-clock", 2*maxStep + 1, 2 * time.Second, 5 * time.Second, true, stepClock},
	{"node-left-behind", 2, 5 * time.Second, 6500 * time.Millisecond, false, leaveBehind},
}

// faultNames are all names, in the order of the list.
func faultNames() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// newPlan draws from the faults with these names; none means all.
func newPlan(seed int64, only []string) *plan {
	p := &plan{random: lab.Numbers(seed, 0x5707)}
	for _, f := range faults {
		if len(only) == 0 || slices.Contains(only, f.name) {
			p.faults = append(p.faults, f)
		}
	}
	for _, f := range p.faults {
		if f.joins {
			p.joining = append(p.joining, f)
		}
	}
	return p
}

// Validate names everything that is wrong, at once.
func (c StormConfig) Validate() error {
	f := c.Harm.Faults()
	f.Unless(c.Strategy == variants.Lua, "the storm needs a keeper, and strategy %s has none", c.Strategy)
	f.Unless(c.Duration >= 5*time.Second && c.Duration <= 24*time.Hour, "duration: %v, want 5s to 24h", c.Duration)
	f.Known("fault", c.Faults, faultNames())
	return errors.Join(f...)
}

// Run lets the storm blow. It ends with the first act that breaks a promise, as
// a service that is broken once explains little of what comes after. Everything
// it started has ended when it returns.
//
// Errors: servers.ErrNotInstalled; what could not be started or mended; ctx's,
// and then the report has the acts that were done by then.
func RunStorm(ctx context.Context, cfg StormConfig) (_ *StormReport, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := openStorm(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("set the stage: %w", err)
	}
	report := &StormReport{Seed: cfg.Seed, Faults: cfg.Faults, Stores: s.Stores.Versions, Acts: []Act{}}
	defer func() {
		if cfg.Keep && report.broken() && ctx.Err() == nil {
			var keepErr error
			report.Logs, keepErr = s.KeepLogs("storm", nil)
			err = errors.Join(err, keepErr)
		}
		err = errors.Join(err, s.close())
	}()
	for left, n := cfg.Duration, int64(0); left > 0 && !report.broken(); n++ {
		length := min(left, actLength)
		if left -= length; left < actLength/4 { // no act that is too short for a fault
			length, left = length+left, 0
		}
		cfg.Say("act %d, seed %d: %v, then %v of storm are left", n+1, cfg.Seed+n, length.Round(time.Second), left.Round(time.Second))
		act, err := s.act(ctx, cfg.Seed+n, length)
		if ctx.Err() != nil { // what was seen so far proves nothing
			return report, ctx.Err()
		}
		if err != nil {
			act.Error = err.Error()
		}
		report.Acts = append(report.Acts, act)
		cfg.Say("%s", act.summary())
		if err != nil {
			break // the servers are in an unknown state
		}
	}
	return report, nil
}

// List writes what the storm is, and its faults, as the drills are listed.
func listStorm(w io.Writer) error {
	_, err := fmt.Fprintf(w, "storm (by itself, with --minutes)\n  happens  faults drawn from a seed, one or two at a time: %s\n"+
		"  buyer    503 or 202 for a moment, then the truth\n"+
		"  never    oversell; two orders under one key; a yes lost; a definite no that becomes a yes; "+
		"a payment both taken and refunded; a sale that stands still beside a healthy node; a unit stranded\n", strings.Join(faultNames(), ", "))
	return err
}
