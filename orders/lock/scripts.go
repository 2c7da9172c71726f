package lock

import (
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed hand_over.lua
	handOverSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
)

// A script keeps its source, because where go-redis can't recover from a server
// that doesn't know it (in a pipeline) we send it ourselves.
type script struct {
	*redis.Script
	source string
}

func newScript(source string) script {
	return script{redis.NewScript(source), source}
}

// unknownScript tells the answer of a server that has to be sent the source: it
// was restarted, or another node of the cluster has taken over.
func unknownScript(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}

// scripts are the steps that happen on the server. They are a field of the
// Client so that a test can put a broken one in and see that it is noticed.
type scripts struct {
	acquire, renew, release script
}

func newScripts() scripts {
	return scripts{
		acquire: newScript(handOverSource + acquireSource),
		renew:   newScript(renewSource),
		release: newScript(handOverSource + releaseSource),
	}
}

// verdict translates what renew.lua and release.lua return.
func verdict(reply int64) error {
	switch reply {
	case 1:
		return nil
	case 0:
		return ErrExpired
	case -1:
		return ErrNotMine
	default:
		return fmt.Errorf("lock: unexpected reply %d", reply)
	}
}
