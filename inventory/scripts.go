package inventory

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

// lua returns the text of the named scripts, one after the other.
func lua(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		part, err := sources.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // a wrong name fails when the program starts
		}
		text.Write(part)
	}
	return text.String()
}

var (
	reserveScript = redis.NewScript(lua("replid", "cooldown", "reserve"))
	inspectScript = redis.NewScript(lua("inspect"))

	// Scripts of keepers.
	releaseScript      = redis.NewScript(lua("epoch", "cooldown", "release_units", "release"))
	dropScript         = redis.NewScript(lua("epoch", "drop_holds"))
	ackScript          = redis.NewScript(lua("cooldown", "release_units", "ack"))
	termsScript        = redis.NewScript(lua("epoch", "cooldown", "terms"))
	stageScript        = redis.NewScript(lua("stage"))
	beginRebuildScript = redis.NewScript(lua("begin_rebuild"))
	deleteSaleScript   = redis.NewScript(lua("delete_sale"))
	installScript      = redis.NewScript(lua("replid", "install"))
)
