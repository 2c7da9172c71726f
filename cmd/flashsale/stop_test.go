package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"flashsale/cmd/flashsale/internal/prove/bench"
	"flashsale/cmd/flashsale/internal/prove/drill"
	"flashsale/cmd/flashsale/internal/prove/gallery"
	"flashsale/cmd/flashsale/internal/prove/gallery/variants"
	"flashsale/cmd/flashsale/internal/prove/lab"
)

// stopAt is an io.Writer that calls cancel when text is written to it.
type stopAt struct {
	text   string
	cancel context.CancelFunc
}

func (s stopAt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.text) {
		s.cancel()
	}
	return len(b), nil
}

// After Ctrl-C, a command leaves no process and no directory behind, and its report does
// not contain unfinished parts.
func TestStops(t *testing.T) {
	if os.Getenv(separateTest) == "" {
		t.Parallel()
	}
	for name, c := range map[string]struct {
		at  string // the progress message at which the command is stopped
		run func(ctx context.Context, cfg drill.Config) (empty bool, err error)
	}{
		"bench": {"keeper:", func(ctx context.Context, cfg drill.Config) (bool, error) {
			_, err := bench.Run(ctx, bench.Config{Config: cfg.Config, Names: []string{"keeper"}, Rounds: 100, Seconds: 1, Connections: 8})
			return true, err
		}},
		"compare": {"judging", func(ctx context.Context, cfg drill.Config) (bool, error) {
			compare := testConfig(gallery.Config{Names: []string{"flashsale"}})
			compare.Config = cfg.Config
			r, err := gallery.Run(ctx, compare)
			return r != nil && len(r.Rows) == 0, err
		}},
		"drill": {"Redis killed", func(ctx context.Context, cfg drill.Config) (bool, error) {
			cfg.Names, cfg.Rate, cfg.Duration = []string{"redis-emptied"}, 150, 10*time.Second
			r, err := drill.Run(ctx, cfg)
			return r != nil && len(r.Drills) == 0, err
		}},
		"storm": {"0.", func(ctx context.Context, cfg drill.Config) (bool, error) {
			cfg.Names, cfg.Length = []string{drill.Storm}, 20*time.Second
			r, err := drill.Run(ctx, cfg)
			return r != nil && len(r.Drills) == 0, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if !inSeparateProcess(t) {
				return
			}
			needReal(t)
			t.Setenv("TMPDIR", t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			empty, err := c.run(ctx, drill.Config{
				Config: lab.Config{Program: os.Args[0], Progress: stopAt{c.at, cancel}}, Strategy: variants.Lua, Seed: 1, Keep: true,
			})
			skipUnlessInstalled(t, err)
			if !errors.Is(err, context.Canceled) || !empty {
				t.Errorf("interrupted command: got error %v, want context.Canceled; report is empty: got %v, want true", err, empty)
			}
			leaves(t, 0)
		})
	}
}
