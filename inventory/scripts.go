package inventory

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

// lua is the text of these files, one after the other.
func lua(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		part, err := sources.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // as the program starts: there is no such file
		}
		text.Write(part)
	}
	return text.String()
}

var (
	reserveScript = redis.NewScript(lua("replid", "rest", "reserve"))
	lookScript    = redis.NewScript(lua("look"))
	tallyScript   = redis.NewScript(lua("tally"))

	// A keeper's scripts.
	releaseScript = redis.NewScript(lua("epoch", "rest", "give_back", "release"))
	confirmScript = redis.NewScript(lua("epoch", "confirm"))
	ackScript     = redis.NewScript(lua("rest", "give_back", "ack"))
	termsScript   = redis.NewScript(lua("epoch", "rest", "terms"))
	stageScript   = redis.NewScript(lua("stage"))
	shutScript    = redis.NewScript(lua("shut"))
	forgetScript  = redis.NewScript(lua("forget"))
	installScript = redis.NewScript(lua("replid", "install"))
)
