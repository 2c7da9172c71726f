package servers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	lua "github.com/yuin/gopher-lua"
)

// miniTick is how often the embedded Redis expires keys.
const miniTick = 100 * time.Millisecond

// miniredis makes a new Lua state for every script it runs, and most of what
// that allocates is stack. The default holds 5,120 values. A quarter of it still
// lets a script unpack 1,000 of them into one command; with more it ends with
// "registry overflow".
func init() {
	// Here, before any script can run: the library reads these without a lock.
	lua.RegistrySize = 1024
	lua.CallStackSize = 32
}

// MiniRedis is a Redis inside this process: a fake, quick to start and slow to
// serve, with everything in memory.
type MiniRedis struct {
	URL  string // redis://127.0.0.1:port/0
	Addr string // 127.0.0.1:port: the same for its whole life

	// Server is the fake itself, for what no client can do (SetError, SetTime).
	// Don't call Close or Restart on it.
	Server *miniredis.Miniredis

	mu     sync.Mutex
	down   bool
	closed bool

	stopClock context.CancelFunc
	clock     sync.WaitGroup
}

// StartMiniRedis starts a miniredis on a free loopback port, and beside it the
// clock that lets its keys expire; Close ends both.
func StartMiniRedis(ctx context.Context) (*MiniRedis, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("servers: start miniredis: %w", err)
	}
	m := &MiniRedis{Server: miniredis.NewMiniRedis()}
	if err := m.Server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("servers: start miniredis: %w", err)
	}
	m.Addr = m.Server.Addr()
	m.URL = "redis://" + m.Addr + "/0"

	// The clock belongs to the server, not to the start: it ends with Close.
	clock, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stopClock = stop
	m.clock.Go(func() { m.runClock(clock) })
	return m, nil
}

// runClock makes time pass for the TTLs, which miniredis freezes. Its own
// ClockTTL would do so too, but by walking over all keys with a TTL on every
// single command.
func (m *MiniRedis) runClock(ctx context.Context) {
	tick := time.NewTicker(miniTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			// What has elapsed, for on a busy machine ticks are late; and not much more than
			// a tick, for it ages keys that are younger, too.
			m.Server.FastForward(min(now.Sub(last), 2*miniTick))
			last = now
		}
	}
}

// Kill closes the listener and all connections. Unlike a killed process's, the
// data stays.
func (m *MiniRedis) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kill()
}

func (m *MiniRedis) kill() {
	if !m.down {
		m.Server.Close()
		m.down = true
	}
}

// Restart listens again on the same port, with the data as it was.
func (m *MiniRedis) Restart(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("%w: restart miniredis", ErrClosed)
	}
	m.kill()
	// Closing cancelled the context under which blocking commands wait (XREAD
	// BLOCK, BLPOP); without a new one they would never be answered again.
	m.Server.Ctx, m.Server.CtxCancel = context.WithCancel(context.Background())
	// As with Process.restart: a client's outgoing connection may have the port.
	err := await(ctx, "servers: restart miniredis", m.Server.Restart)
	m.down = err != nil
	return err
}

// Close ends the server and its clock. Further calls do nothing.
func (m *MiniRedis) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.stopClock()
	m.clock.Wait()
	m.kill()
	return nil
}
