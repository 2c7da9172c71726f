package live

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// Nodes tell each other what they have counted over two channels of Redis, and
// only when asked: a node with an operator watching asks once a second, and each
// other one answers with some hundred bytes. While Redis is away a node has only
// its own figures.
const (
	askChannel    = "live:ask"    // SKUs whose balance is wanted
	countsChannel = "live:counts" // counts
)

// silence is after how long a node that has not answered is left out.
const silence = 3 * time.Second

// others are the other nodes, as far as they have answered.
type others struct {
	mu     sync.Mutex
	heard  map[string]heard  // by node
	before map[string]counts // what the last rates were worked out from
	last   map[string]rates
}

type heard struct {
	counts
	at time.Time
}

// listen answers and hears answers until ctx ends.
func (l *Live) listen(ctx context.Context) {
	sub := l.cfg.Redis.Subscribe(ctx, askChannel, countsChannel)
	defer func() { _ = sub.Close() }()
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			switch m.Channel {
			case askChannel:
				l.answer(ctx, m.Payload)
			case countsChannel:
				l.hear(m.Payload)
			}
		}
	}
}

// ask has the other nodes publish what they have counted.
func (l *Live) ask(ctx context.Context, skus map[string]bool) {
	l.say(ctx, askChannel, question{From: l.cfg.Node, SKUs: slices.Sorted(maps.Keys(skus))})
}

type question struct {
	From string
	SKUs []string
}

func (l *Live) answer(ctx context.Context, payload string) {
	var q question
	if json.Unmarshal([]byte(payload), &q) != nil || q.From == l.cfg.Node {
		return
	}
	skus := map[string]bool{}
	for _, sku := range q.SKUs {
		skus[sku] = true
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	l.say(ctx, countsChannel, l.count(skus))
}

func (l *Live) say(ctx context.Context, channel string, what any) {
	if payload, err := json.Marshal(what); err == nil {
		_ = l.cfg.Redis.Publish(ctx, channel, payload).Err() // the page says that Redis is away
	}
}

func (l *Live) hear(payload string) {
	var c counts
	if json.Unmarshal([]byte(payload), &c) != nil || c.Node == l.cfg.Node {
		return
	}
	l.others.mu.Lock()
	defer l.others.mu.Unlock()
	if l.others.heard == nil {
		l.others.heard = map[string]heard{}
	}
	l.others.heard[c.Node] = heard{c, time.Now()}
}

// seen are all nodes by name: this one, and those that have answered of late.
func (o *others) seen(here counts) []counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	nodes := []counts{here}
	for node, h := range o.heard {
		if time.Since(h.at) > silence {
			delete(o.heard, node)
			continue
		}
		nodes = append(nodes, h.counts)
	}
	slices.SortFunc(nodes, func(a, b counts) int { return cmp.Compare(a.Node, b.Node) })
	return nodes
}

// forget is for a moment when nobody watches: what comes after it must not be
// compared with what was before.
func (o *others) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard, o.before, o.last = nil, nil, nil
}
