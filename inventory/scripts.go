package inventory

import (
	_ "embed" // the scripts, each in a file of its own

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed epoch.lua
	epochLua string
	//go:embed replid.lua
	replIDLua string
	//go:embed rest.lua
	restLua string
	//go:embed give_back.lua
	giveBackLua string
	//go:embed reserve.lua
	reserveLua string
	//go:embed release.lua
	releaseLua string
	//go:embed confirm.lua
	confirmLua string
	//go:embed ack.lua
	ackLua string
	//go:embed terms.lua
	termsLua string
	//go:embed shut.lua
	shutLua string
	//go:embed install.lua
	installLua string
	//go:embed stage.lua
	stageLua string
	//go:embed forget.lua
	forgetLua string
	//go:embed look.lua
	lookLua string
	//go:embed tally.lua
	tallyLua string
)

var (
	reserveScript = redis.NewScript(replIDLua + reserveLua)
	lookScript    = redis.NewScript(lookLua)
	tallyScript   = redis.NewScript(tallyLua)

	// A keeper's scripts.
	releaseScript = redis.NewScript(epochLua + restLua + giveBackLua + releaseLua)
	confirmScript = redis.NewScript(epochLua + confirmLua)
	ackScript     = redis.NewScript(restLua + giveBackLua + ackLua)
	termsScript   = redis.NewScript(epochLua + restLua + termsLua)
	stageScript   = redis.NewScript(stageLua)
	shutScript    = redis.NewScript(shutLua)
	forgetScript  = redis.NewScript(forgetLua)
	installScript = redis.NewScript(replIDLua + restLua + installLua)
)
