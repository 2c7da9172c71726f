package lock

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// atOnce is how many calls of a sender are under way at most: while Redis is at
// work on some, the next are collected.
const atOnce = 8

// A sender sends what many callers want at the same moment in one pipeline, as
// soon as a call before it returns: there is no timer, nobody waits for company.
// A caller who finds few before it sends for itself. It has a goroutine only
// while others wait, and that ends with its calls.
//
// In a cluster everybody sends for itself: one node that doesn't answer would
// hold up the locks of all others.
type sender struct {
	rdb     redis.UniversalClient
	timeout time.Duration // of each call
	once    bool          // go-redis must not repeat what is sent

	mu      sync.Mutex
	waiting []*sent
	calls   int // under way
}

// sent is one caller's command, done when it has its answer or its error.
type sent struct {
	cmd   redis.Cmder
	since time.Time
	done  chan struct{}
}

// eval runs a script by its hash, or by its source where the server doesn't know
// that.
func (s *sender) eval(ctx context.Context, sc script, keys []string, argv ...any) (int64, error) {
	cmd := newEval(ctx, "evalsha", sc.Hash(), keys, argv)
	s.do(ctx, cmd)
	if unknownScript(cmd.Err()) {
		cmd = newEval(ctx, "eval", sc.source, keys, argv)
		s.do(ctx, cmd)
	}
	return cmd.Int64()
}

// do has c answered. A call that others share runs under its own time: one that
// gives up must not take its neighbours along. So it is finished before do
// returns, whatever became of ctx, in at most twice the timeout.
func (s *sender) do(ctx context.Context, c *redis.Cmd) {
	var cmd redis.Cmder = c
	if s.once {
		cmd = noRetry{c}
	}
	if w := s.wait(cmd); w != nil {
		<-w.done
		return
	}
	if end, ends := ctx.Deadline(); !ends || time.Until(end) > s.timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	_ = s.rdb.Process(ctx, cmd) // cmd has the error
	if batch := s.next(); batch != nil {
		go s.send(batch)
	}
}

// wait stands behind others if there are enough of them; else it returns nil, and
// the caller sends for itself and then calls next.
func (s *sender) wait(cmd redis.Cmder) *sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, alone := s.rdb.(*redis.Client); !alone || s.calls < atOnce {
		s.calls++
		return nil
	}
	w := &sent{cmd, time.Now(), make(chan struct{})}
	s.waiting = append(s.waiting, w)
	return w
}

// next takes along those who wait, or counts the call off: under the one lock, or
// one who came in between would wait for ever. Who has waited for a whole timeout
// is told so: when Redis doesn't answer, the last would wait for all before it.
func (s *sender) next() (next []*sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.waiting) > 0 && len(next) < batch {
		w := s.waiting[0]
		s.waiting[0], s.waiting = nil, s.waiting[1:]
		if now.Sub(w.since) > s.timeout {
			w.cmd.SetErr(context.DeadlineExceeded)
			close(w.done)
			continue
		}
		next = append(next, w)
	}
	if next == nil {
		s.calls--
	}
	return next
}

func (s *sender) send(batch []*sent) {
	for ; batch != nil; batch = s.next() {
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		// The error of the whole is that of its first command, and each has its own.
		_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, w := range batch {
				_ = p.Process(ctx, w.cmd)
			}
			return nil
		})
		cancel()
		for _, w := range batch {
			close(w.done)
		}
	}
}

func newEval(ctx context.Context, command, script string, keys []string, argv []any) *redis.Cmd {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, command, script, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, argv...)...)
	cmd.SetFirstKeyPos(3) // which node of a cluster it is for
	return cmd
}

// noRetry is a command that go-redis does not send again by itself. A release
// that is repeated unseen finds its own work done and reads as "not held": erase
// must know of every attempt.
type noRetry struct{ *redis.Cmd }

func (noRetry) NoRetry() bool { return true }
