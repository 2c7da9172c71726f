package drill

import (
	"bytes"
	"context"
	_ "embed" // the shim's source
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed shim/clock.c
var shim []byte

// A clock sets the wall clock of the Redis servers that run with its environment.
type clock struct {
	file *os.File // contains the offset in seconds
	env  []string
}

// newClock compiles the shim into dir. It fails if no C compiler is installed.
func newClock(ctx context.Context, dir string) (*clock, error) {
	library := filepath.Join(dir, "clock.so")
	compile := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O2", "-x", "c", "-o", library, "-")
	compile.Stdin = bytes.NewReader(shim)
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile clock.c: %w, output %q", err, out)
	}
	file, err := os.Create(filepath.Join(dir, "clock"))
	if err != nil {
		return nil, err
	}
	c := &clock{file: file, env: []string{"LD_PRELOAD=" + library, "FLASHSALE_CLOCK=" + file.Name()}}
	return c, c.set(0)
}

// set sets the offset to the true time, in seconds.
func (c *clock) set(seconds int) error {
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(seconds))), 0)
	return err
}

// maxStep is the largest offset, in seconds.
const maxStep = 120

// stepClock steps the clock of both Redis servers, and later steps it back. The variant
// determines the offset.
func stepClock(in *injector, p step) error {
	if in.clock == nil {
		in.did("Redis's clock does not change: no C compiler")
		return nil
	}
	offset := p.variant - maxStep
	if err := in.clock.set(offset); err != nil {
		return err
	}
	back := func(context.Context) error { return in.clock.set(0) }
	return in.lasts(p, lost, func(*brokenState, int) {}, back, "Redis's clock is off by %+ds", offset)
}
