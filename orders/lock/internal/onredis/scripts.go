package onredis

import (
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"flashsale/orders/lock/lease"
)

var (
	// ValueSource must precede each script that reads the value of a lock.
	//go:embed value.lua
	ValueSource string
	//go:embed hand_over.lua
	handOverSource string
	// AcquireSource acquires a lock.
	//go:embed acquire.lua
	AcquireSource string
	//go:embed renew.lua
	renewSource string
	// ReleaseSource releases a lock.
	//go:embed release.lua
	ReleaseSource string

	// HandOverSource must precede AcquireSource and ReleaseSource.
	HandOverSource = ValueSource + handOverSource
)

// Scripts contains the Lua scripts of a lock. Tests replace them with broken ones.
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

// ReplyError returns the error that a reply of renew.lua or release.lua stands for. If err
// is not nil, there is no reply, and ReplyError returns err.
func ReplyError(reply int64, err error) error {
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
	return fmt.Errorf("lock: the script returned the unexpected reply %d", reply)
}
