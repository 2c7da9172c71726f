package compare

import (
	"context"
	"runtime"
	"syscall"
)

// On Linux, an idle Go process waits for the network in whole milliseconds, so its timers are up
// to a millisecond late. The wire produces its latency by timers. Without exactTimers, the
// latency would be longest for the library that needs the least CPU.
func init() {
	exactTimers = func(ctx context.Context) {
		runtime.LockOSThread() // the thread ends with the goroutine
		for ctx.Err() == nil {
			_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 50_000}, nil)
			runtime.Gosched() // lets the scheduler check timers
		}
	}
}
