package onredis

import (
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

var (
	//go:embed value.lua
	ValueSource string
	//go:embed hand_over.lua
	handOverSource string
	//go:embed acquire.lua
	AcquireSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	ReleaseSource string
	//go:embed attach.lua
	attachSource string

	// HandOverSource comes before AcquireSource and ReleaseSource.
	HandOverSource = ValueSource + handOverSource
)

// A Script keeps its source, because where go-redis can't recover from a server
// that doesn't know it (in a pipeline) we send it ourselves.
type Script struct {
	*redis.Script
	source string
}

func NewScript(source string) Script {
	return Script{redis.NewScript(source), source}
}

// unknownScript tells the answer of a server that has to be sent the source: it
// was restarted, or another node of the cluster has taken over.
func unknownScript(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}

// Scripts are the steps that happen on the server. They are a field of Store so that
// a test can put a broken one in and see that it is noticed.
type Scripts struct {
	Acquire, Renew, Release, Attach Script
}

func NewScripts() Scripts {
	return Scripts{
		Acquire: NewScript(HandOverSource + AcquireSource),
		Renew:   NewScript(ValueSource + renewSource),
		Release: NewScript(HandOverSource + ReleaseSource),
		Attach:  NewScript(ValueSource + attachSource),
	}
}

// Verdict translates what renew.lua, release.lua and attach.lua return.
func Verdict(reply int64) error {
	switch reply {
	case 1:
		return nil
	case 0:
		return lease.ErrExpired
	case -1:
		return lease.ErrNotMine
	default:
		return fmt.Errorf("lock: unexpected reply %d", reply)
	}
}
