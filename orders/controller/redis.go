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

// A redisHealth records which Redis masters accept this node's writes. For each sale,
// the master of its gate counts.
//
// The state of a master changes only after several equal probes, so that a short outage
// leads no sale into direct mode or out of it. Probes are counted, and not time, because
// a process that was stopped would count the time of its stop.
type redisHealth struct {
	gate    Gate
	log     *slog.Logger
	timeout time.Duration // of a probe
	lasts   int           // probes in a row that it takes

	mu     sync.Mutex
	all    map[string]master // by name, as last probed
	down   []string          // names of the masters that are down; replaced, never changed
	latest time.Time         // when any master did
}

type master struct {
	down     bool
	contrary int       // probes in a row that say the opposite
	wrote    time.Time // when it last took a write of a keeper
}

// maxProbeTimeout is how long Redis may take for a small write, at most.
const maxProbeTimeout = time.Second

// probe probes every master, and reports whether one is down now or up again.
func (h *redisHealth) probe(ctx context.Context) (changed bool) {
	within, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	probed := h.gate.Probe(within)
	return ctx.Err() == nil && h.observe(probed)
}

// observe records one probe, and reports whether a master is down now or up again.
func (h *redisHealth) observe(probed []inventory.Master) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, all, down := time.Now(), make(map[string]master, len(probed)), []string(nil)
	for _, p := range probed {
		m := h.all[p.Name]
		// Without memory Redis refuses buyers, and lets a keeper take orders off
		// the queue and give units back: its scripts begin with a deletion.
		if p.Err == nil || strings.HasPrefix(p.Err.Error(), "OOM ") {
			m.wrote, h.latest = now, now
		}
		if m.contrary++; m.down == (p.Err != nil) {
			m.contrary = 0
		}
		if m.contrary >= h.lasts {
			m.down, m.contrary, changed = !m.down, 0, true
			if m.down {
				h.log.Warn("Redis does not take writes", "master", p.Name, "error", p.Err)
			} else {
				h.log.Info("Redis takes writes again", "master", p.Name)
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

// master returns the master of the gate of sku. A master that was not probed counts
// as up.
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
	name, _ = h.gate.Master(ctx, sku)
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

// downMasters returns the names of the masters that are down, in order.
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
