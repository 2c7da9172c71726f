package onredis

import (
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

var (
	// ValueSource comes before each script that reads the value of a lock.
	//go:embed value.lua
	ValueSource string
	//go:embed hand_over.lua
	handOverSource string
	// AcquireSource takes a lock.
	//go:embed acquire.lua
	AcquireSource string
	//go:embed renew.lua
	renewSource string
	// ReleaseSource gives a lock up.
	//go:embed release.lua
	ReleaseSource string

	// HandOverSource comes before AcquireSource and ReleaseSource.
	HandOverSource = ValueSource + handOverSource
)

// Scripts are the steps that happen on the server. They are a field of Store so that
// a test can put a broken one in and see that it is noticed.
type Scripts struct {
	Acquire, Renew, Release *redis.Script
}

// NewScripts returns the scripts of a lock.
func NewScripts() Scripts {
	return Scripts{
		Acquire: redis.NewScript(HandOverSource + AcquireSource),
		Renew:   redis.NewScript(ValueSource + renewSource),
		Release: redis.NewScript(HandOverSource + ReleaseSource),
	}
}

// Verdict translates what renew.lua and release.lua return. An err, which is why there is no
// reply, is returned as it is.
func Verdict(reply int64, err error) error {
	switch {
	case err != nil:
		return err
	case reply == 1:
		return nil
	case reply == 0:
		return lease.ErrExpired
	case reply == -1:
		return lease.ErrNotMine
	}
	return fmt.Errorf("lock: unexpected reply %d", reply)
}
