package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(takeSource)

// ask is one request as the script sees it.
type ask struct {
	cost    int64 // tokens; below 0 gives back what was taken
	buckets []Bucket
	timeout time.Duration // how long it would queue, in whole microseconds
	taken   int64         // when what is given back was taken, or a turn that is given up is over, in Redis's microseconds
}

// answer is the script's decision on one ask.
type answer struct {
	taken  bool
	bucket int   // the deciding bucket's place in the ask
	left   int64 // whole tokens in it
	wait   time.Duration
	reset  time.Duration
	at     int64 // the moment, in Redis's microseconds
	err    error
}

// take sends the asks in one script call.
//
// go-redis sends a script again when the connection broke or timed out before
// the answer came, and the first one may have run: then tokens are taken
// twice. That can refuse somebody too early by that cost, never allow too
// much; remembering every call to prevent it would cost more than it saves.
func (l *Limiter) take(ctx context.Context, asks []ask) []answer {
	keys, args := encode(l.config.Prefix, asks)
	reply, err := takeScript.Run(ctx, l.client, keys, args...).Int64Slice()
	answers, _ := decode(reply, err, asks)
	return answers
}

// encode lays out KEYS and ARGV as take.lua reads them. Equal buckets share a
// key, so the script reads and writes a hot bucket once for a whole batch.
func encode(prefix string, asks []ask) (keys []string, args []any) {
	buckets := 0
	for _, a := range asks {
		buckets += len(a.buckets)
	}
	var (
		limits  []kind
		keyOf   map[Bucket]int // for one alone there is nothing to find
		limitOf = make([]any, 0, buckets)
		tail    = make([]any, 0, 3*len(asks)+buckets)
	)
	keys = make([]string, 0, buckets)
	if len(asks) > 1 {
		keyOf = make(map[Bucket]int, len(asks))
	}
	for _, a := range asks {
		second := a.timeout.Microseconds()
		if a.cost < 0 {
			second = a.taken
		}
		tail = append(tail, a.cost, second, len(a.buckets))
		for _, b := range a.buckets {
			k, known := keyOf[b]
			if !known {
				keys = append(keys, b.key(prefix))
				k = len(keys) // Lua counts from 1
				if keyOf != nil {
					keyOf[b] = k
				}
				var i int
				limits, i = indexOf(limits, kind{b.Limit, b.queues})
				limitOf = append(limitOf, i)
			}
			tail = append(tail, k)
		}
	}
	args = make([]any, 0, 1+4*len(limits)+len(limitOf)+len(tail))
	args = append(args, len(limits))
	for _, limit := range limits {
		args = append(args, limit.unit, limit.rate, limit.full(), limit.most())
	}
	args = append(args, limitOf...)
	return keys, append(args, tail...)
}

// kind is a limit and what it counts: what has passed, or what waits to pass.
type kind struct {
	Limit
	queues bool
}

// most is the most units that such a bucket can be short of full.
func (k kind) most() int64 {
	if k.queues {
		return maxLevel
	}
	return k.full()
}

// indexOf finds a limit, counting from 1, and adds it if it is new. There are
// as many as the configuration has, so a search beats a map.
func indexOf(limits []kind, limit kind) ([]kind, int) {
	if i := slices.Index(limits, limit); i >= 0 {
		return limits, i + 1
	}
	return append(limits, limit), len(limits) + 1
}

// decode reads the reply of take.lua: the moment, and five integers to an ask.
func decode(reply []int64, err error, asks []ask) (answers []answer, at int64) {
	answers = make([]answer, len(asks))
	if err == nil && len(reply) != 1+5*len(asks) {
		err = fmt.Errorf("take.lua returned %d numbers for %d requests", len(reply), len(asks))
	}
	if err != nil {
		err = fmt.Errorf("%w: asking %d at once: %w", ErrUnavailable, len(asks), err)
		for i := range answers {
			answers[i].err = err
		}
		return answers, 0
	}
	at, reply = reply[0], reply[1:]
	for i := range answers {
		r := reply[5*i : 5*i+5]
		if r[1] < 1 || r[1] > int64(len(asks[i].buckets)) {
			answers[i].err = fmt.Errorf("%w: take.lua named bucket %d of %d", ErrUnavailable, r[1], len(asks[i].buckets))
			continue
		}
		answers[i] = answer{
			taken:  r[0] == 1,
			bucket: int(r[1]) - 1,
			left:   r[2],
			wait:   micros(r[3]),
			reset:  micros(r[4]),
			at:     at,
		}
	}
	return answers, at
}
