package servers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	lua "github.com/yuin/gopher-lua"
)

// miniTick is the interval at which the embedded Redis expires keys.
const miniTick = 100 * time.Millisecond

// miniredis creates a Lua state for each script call and spends most of that memory on
// its stack of 5,120 values. A quarter of that still lets a script unpack 1,000 values
// into one command. A script that needs more fails with "registry overflow".
func init() {
	// Set these in init, because the library reads them without a lock.
	lua.RegistrySize = 1024
	lua.CallStackSize = 32
}

// MiniRedis is a fake Redis inside this process. It starts quickly, serves slowly and
// keeps all data in memory.
type MiniRedis struct {
	URL  string // redis://127.0.0.1:port/0
	Addr string // 127.0.0.1:port; a restart keeps it

	// Server is the fake itself, for calls such as SetError and SetTime. Do not call
	// its Close or Restart.
	Server *miniredis.Miniredis

	mu     sync.Mutex
	down   bool
	closed bool

	stopClock context.CancelFunc
	clock     sync.WaitGroup
}

// StartMiniRedis starts a miniredis on a free loopback port, and a clock that expires
// its keys. Close stops both.
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

	// Close stops the clock, not the end of ctx.
	clock, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stopClock = stop
	m.clock.Go(func() { m.runClock(clock) })
	return m, nil
}

// runClock advances the time of the TTLs, which stands still in miniredis. The ClockTTL
// of miniredis would do so too, but it visits all keys with a TTL in every command.
func (m *MiniRedis) runClock(ctx context.Context) {
	tick := time.NewTicker(miniTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			// Ticks are late on a busy machine, so advance by the elapsed time. A long
			// step would also age keys that are younger than it, so limit it.
			m.Server.FastForward(min(now.Sub(last), 2*miniTick))
			last = now
		}
	}
}

// Kill closes the listener and all connections. The data is kept.
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

// Restart listens on the same port again. The data is kept.
func (m *MiniRedis) Restart(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("servers: restart miniredis: %w", ErrClosed)
	}
	m.kill()
	// Close has cancelled the context of blocking commands such as XREAD BLOCK. Without
	// a new context, they would never be answered.
	m.Server.Ctx, m.Server.CtxCancel = context.WithCancel(context.Background())
	// An outgoing connection of a client may have taken the port for a while.
	err := await(ctx, "servers: restart miniredis", m.Server.Restart)
	m.down = err != nil
	return err
}

// Close stops the server and its clock. Further calls do nothing.
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
