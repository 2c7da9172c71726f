package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"flashsale/inventory"
)

// redisHealth is what this node knows of Redis: which of its masters take this
// node's writes. For each sale, the master that has its gate counts.
//
// A master is down, or up again, only once the opposite of what was known has
// lasted: what comes and goes must lead no sale into direct mode, nor out of
// it. Probes are counted, and not time, so that a process that was stopped
// between two of them has not waited for anything.
type redisHealth struct {
	gate interface {
		Master(context.Context, string) (string, error)
	}
	lasts  int // probes in a row that it takes
	mu     sync.Mutex
	all    map[string]master // by name, as last probed
	latest time.Time         // when any master did
}

type master struct {
	down     bool
	contrary int       // probes in a row that say the opposite
	wrote    time.Time // when it last took a write of a keeper
}

// probeTimeout is how long Redis may take for a small write, at most.
const probeTimeout = time.Second

// observe takes note of one probe, and returns what has changed: the masters
// that are down now, with why, and those that are up again, without.
func (h *redisHealth) observe(probed []inventory.Master) (changed []inventory.Master) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, all := time.Now(), make(map[string]master, len(probed))
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
			m.down, m.contrary = !m.down, 0
			changed = append(changed, p)
		}
		all[p.Name] = m
	}
	h.all = all
	return changed
}

// of is the master that has the gate of sku. One that was not probed is taken
// for up: nothing is known against it.
func (h *redisHealth) of(sku string) (name string, m master) {
	h.mu.Lock()
	m, whole := h.all[inventory.Standalone]
	whole = whole || len(h.all) == 0
	h.mu.Unlock()
	if whole {
		return inventory.Standalone, m
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
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

// unwritable are the masters that are down, by name.
func (h *redisHealth) unwritable() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for name, m := range h.all {
		if m.down {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// away tells whether all masters are down.
func (h *redisHealth) away() bool {
	down := len(h.unwritable())
	h.mu.Lock()
	defer h.mu.Unlock()
	return down > 0 && down == len(h.all)
}
