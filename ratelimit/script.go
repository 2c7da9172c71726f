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

// An ask is one request to the script.
type ask struct {
	cost    int64 // tokens; below 0, tokens to give back
	buckets []Bucket
	timeout time.Duration // longest time in the queue, in whole microseconds
	taken   int64         // if cost is below 0: Redis's clock when the tokens were taken, or when the turn would end, in microseconds
}

// An answer is the script's decision on one ask.
type answer struct {
	taken  bool
	bucket int   // index in ask.buckets of the bucket that decided
	left   int64 // whole tokens in that bucket
	wait   time.Duration
	reset  time.Duration
	at     int64 // Redis's clock at the decision, in microseconds
	err    error
}

// take sends the asks in one script call.
//
// go-redis sends a script again if the connection breaks or times out before the answer
// arrives. If the first attempt has run, the tokens are taken twice. That may refuse a
// request too early, but never allows too much. To prevent it, the script would have to
// remember every call, which costs more than it saves.
func (l *Limiter) take(ctx context.Context, asks []ask) []answer {
	keys, args := encode(l.config.Prefix, asks)
	reply, err := takeScript.Run(ctx, l.client, keys, args...).Int64Slice()
	return decode(reply, err, asks)
}

// encode returns KEYS and ARGV of take.lua. Equal buckets share a key, so the script
// reads and writes a hot bucket once for a whole batch.
func encode(prefix string, asks []ask) (keys []string, args []any) {
	buckets := 0
	for _, a := range asks {
		buckets += len(a.buckets)
	}
	var (
		kinds  []kind
		keyOf  map[Bucket]int // nil for a single ask, whose buckets all differ
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
				// Configurations have few limits, so a search is faster than a map.
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
		maxDebt := full
		if k.queues {
			maxDebt = maxQueue
		}
		args = append(args, token, rate, full, maxDebt)
	}
	args = append(args, kindOf...)
	return keys, append(args, tail...)
}

// A kind is a limit with the way of counting: requests that have passed, or also requests
// that wait.
type kind struct {
	limit  limit.Limit
	queues bool
}

// decode reads the reply of take.lua: Redis's clock, and five integers for each ask.
func decode(reply []int64, err error, asks []ask) []answer {
	answers := make([]answer, len(asks))
	if err == nil && len(reply) != 1+5*len(asks) {
		err = fmt.Errorf("take.lua returned %d numbers for %d requests, want 1 and five per request", len(reply), len(asks))
	}
	if err != nil {
		err = fmt.Errorf("%w: call for %d requests: %w", ErrUnavailable, len(asks), err)
		for i := range answers {
			answers[i].err = err
		}
		return answers
	}
	for i := range answers {
		r := reply[1+5*i : 6+5*i]
		if r[1] < 1 || r[1] > int64(len(asks[i].buckets)) {
			answers[i].err = fmt.Errorf("%w: take.lua named bucket %d of %d, which does not exist", ErrUnavailable, r[1], len(asks[i].buckets))
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
