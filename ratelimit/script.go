package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/ratelimit/limit"
)

//go:embed take.lua
var takeSource string

var takeScript = redis.NewScript(takeSource)

// ask is one request as the script sees it.
type ask struct {
	cost    int64 // tokens; below 0 gives back what was taken
	buckets []Bucket
	timeout time.Duration // how long it would queue, in whole microseconds
	taken   int64         // with a cost below 0: when it was taken, or when a turn would be over, in Redis's microseconds
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
// the answer came. If the first one has run, the tokens are taken twice. That may
// refuse somebody too early, and never allows too much. To prevent it the script would
// have to remember every call, which costs more than it saves.
func (l *Limiter) take(ctx context.Context, asks []ask) []answer {
	keys, args := encode(l.config.Prefix, asks)
	reply, err := takeScript.Run(ctx, l.client, keys, args...).Int64Slice()
	return decode(reply, err, asks)
}

// encode lays out KEYS and ARGV as take.lua reads them. Equal buckets share a
// key, so the script reads and writes a hot bucket once for a whole batch.
func encode(prefix string, asks []ask) (keys []string, args []any) {
	buckets := 0
	for _, a := range asks {
		buckets += len(a.buckets)
	}
	var (
		kinds  []kind
		keyOf  map[Bucket]int // for one alone there is nothing to find
		kindOf = make([]any, 0, buckets)
		tail   = make([]any, 0, 3*len(asks)+buckets)
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
				// There are as many kinds as the configuration has limits, so a
				// search beats a map.
				i := slices.Index(kinds, kind{b.Limit, b.queues})
				if i < 0 {
					i, kinds = len(kinds), append(kinds, kind{b.Limit, b.queues})
				}
				kindOf = append(kindOf, i+1)
			}
			tail = append(tail, k)
		}
	}
	args = make([]any, 0, 1+4*len(kinds)+len(kindOf)+len(tail))
	args = append(args, len(kinds))
	for _, k := range kinds {
		token, rate := k.limit.Units()
		full := k.limit.Burst() * token
		most := full
		if k.queues {
			most = maxQueue
		}
		args = append(args, token, rate, full, most)
	}
	args = append(args, kindOf...)
	return keys, append(args, tail...)
}

// kind is a limit and what it counts: what has passed, or what waits to pass.
type kind struct {
	limit  limit.Limit
	queues bool
}

// decode reads the reply of take.lua: the moment, and five integers to an ask.
func decode(reply []int64, err error, asks []ask) []answer {
	answers := make([]answer, len(asks))
	if err == nil && len(reply) != 1+5*len(asks) {
		err = fmt.Errorf("take.lua returned %d numbers for %d requests", len(reply), len(asks))
	}
	if err != nil {
		err = fmt.Errorf("%w: asking %d at once: %w", ErrUnavailable, len(asks), err)
		for i := range answers {
			answers[i].err = err
		}
		return answers
	}
	for i := range answers {
		r := reply[1+5*i : 6+5*i]
		if r[1] < 1 || r[1] > int64(len(asks[i].buckets)) {
			answers[i].err = fmt.Errorf("%w: take.lua named bucket %d of %d", ErrUnavailable, r[1], len(asks[i].buckets))
			continue
		}
		answers[i] = answer{
			taken:  r[0] == 1,
			bucket: int(r[1]) - 1,
			left:   r[2],
			wait:   time.Duration(r[3]) * time.Microsecond,
			reset:  time.Duration(r[4]) * time.Microsecond,
			at:     reply[0],
		}
	}
	return answers
}
