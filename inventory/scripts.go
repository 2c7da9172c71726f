package inventory

import (
	_ "embed" // the scripts, each in a file of its own

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed fence.lua
	fenceLua string
	//go:embed give_back.lua
	giveBackLua string
	//go:embed reserve.lua
	reserveLua string
	//go:embed release.lua
	releaseLua string
	//go:embed confirm.lua
	confirmLua string
	//go:embed settle.lua
	settleLua string
	//go:embed claim.lua
	claimLua string
	//go:embed terms.lua
	termsLua string
	//go:embed shut.lua
	shutLua string
	//go:embed install.lua
	installLua string
	//go:embed look.lua
	lookLua string
	//go:embed tally.lua
	tallyLua string
)

var (
	reserveScript = redis.NewScript(reserveLua)
	lookScript    = redis.NewScript(lookLua)
	tallyScript   = redis.NewScript(tallyLua)

	// A keeper's scripts: each checks the fence first.
	releaseScript = redis.NewScript(fenceLua + giveBackLua + releaseLua)
	confirmScript = redis.NewScript(fenceLua + confirmLua)
	settleScript  = redis.NewScript(fenceLua + giveBackLua + settleLua)
	claimScript   = redis.NewScript(fenceLua + claimLua)
	termsScript   = redis.NewScript(fenceLua + termsLua)
	shutScript    = redis.NewScript(fenceLua + shutLua)
	installScript = redis.NewScript(fenceLua + installLua)
)
