package controller

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"flashsale/inventory"
)

// A redisHealth records which Redis masters accept this node's writes. A sale depends on the
// master that holds its gate.
//
// The state of a master changes only after several probes with the same result, so that a
// short outage does not switch sales to direct mode and back. Probes are counted because time
// would also pass while the process is stopped.
type redisHealth struct {
	gate      Gate
	log       *slog.Logger
	timeout   time.Duration // timeout of a probe
	threshold int           // number of consecutive probes that change the state of a master

	mu     sync.Mutex
	all    map[string]master // masters by name, as of the last probe
	down   []string          // sorted names of the masters that are down; replaced, never modified
	latest time.Time         // the latest master.wrote of all masters
}

type master struct {
	down     bool
	contrary int       // number of consecutive probes that contradict down
	wrote    time.Time // time at which the master last accepted a keeper's writes
}

// maxProbeTimeout is the maximum timeout of a probe.
const maxProbeTimeout = time.Second

// probe probes every master, and reports whether the state of one has changed.
func (h *redisHealth) probe(ctx context.Context) (changed bool) {
	within, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	probed := h.gate.ProbeMasters(within)
	return ctx.Err() == nil && h.observe(probed)
}

// observe records the results of one probe, and reports whether the state of a master has
// changed.
func (h *redisHealth) observe(probed []inventory.Master) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, all, down := time.Now(), make(map[string]master, len(probed)), []string(nil)
	for _, p := range probed {
		m := h.all[p.Name]
		// When Redis is out of memory, it refuses reservations. It still accepts the
		// scripts that empty the queue and release holds, because they begin with a deletion.
		if p.Err == nil || strings.HasPrefix(p.Err.Error(), "OOM ") {
			m.wrote, h.latest = now, now
		}
		if m.contrary++; m.down == (p.Err != nil) {
			m.contrary = 0
		}
		if m.contrary >= h.threshold {
			m.down, m.contrary, changed = !m.down, 0, true
			if m.down {
				h.log.Warn("Redis master refuses writes: its sales enter direct mode", "master", p.Name, "error", p.Err)
			} else {
				h.log.Info("Redis master accepts writes again", "master", p.Name)
			}
		}
		if m.down {
			down = append(down, p.Name)
		}
		all[p.Name] = m
	}
	slices.Sort(down)
	h.all, h.down = all, down
	return changed
}

// master returns the name and the state of the master that holds the gate of sku. A master
// that was not probed counts as up.
func (h *redisHealth) master(sku string) (name string, m master) {
	h.mu.Lock()
	m, standalone := h.all[inventory.Standalone]
	standalone = standalone || len(h.all) == 0
	h.mu.Unlock()
	if standalone {
		return inventory.Standalone, m
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxProbeTimeout)
	defer cancel()
	name, _ = h.gate.MasterOf(ctx, sku)
	h.mu.Lock()
	defer h.mu.Unlock()
	m, probed := h.all[name]
	if !probed {
		m.wrote = h.latest
	}
	return name, m
}

// gateUntrusted reports whether the master of sku is down.
func (h *redisHealth) gateUntrusted(sku string) bool {
	_, m := h.master(sku)
	return m.down
}

// downMasters returns the sorted names of the masters that are down.
func (h *redisHealth) downMasters() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

// allDown reports whether every master is down.
func (h *redisHealth) allDown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.down) > 0 && len(h.down) == len(h.all)
}
