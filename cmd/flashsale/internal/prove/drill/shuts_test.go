package drill

import (
	"testing"
	"time"

	"flashsale/inventory"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The fault change-held-up holds back the script that shuts the gate of a sale, and no other
// script of that sale.
func TestShuts(t *testing.T) {
	s, toRedis := servertest.RedisVia(t, servertest.Open(t, servers.KindEmbedded))
	gate := inventory.KeeperGate{Gate: inventory.New(servertest.Connect(t, s.RedisURL), inventory.Config{})}
	setTerms := func() {
		check.Is(t, gate.SetTerms(t.Context(), "S", 1, inventory.Terms{OpensAt: time.Now(), ClosesAt: time.Now()}), inventory.ErrNoGate)
	}
	check.Must(t, gate.BeginRebuild(t.Context(), "S", 1)) // loads the script, so that its hash is sent next
	setTerms()
	held := toRedis.Hold(func(sent []byte) bool { return shuts(sent, "S") })
	setTerms()
	check.Must(t, gate.BeginRebuild(t.Context(), "T", 1))
	select {
	case <-held.Caught():
		t.Error("a script that does not shut the gate of S is held back")
	default:
	}
	ended := make(chan error, 1)
	go func() { ended <- gate.BeginRebuild(t.Context(), "S", 1) }()
	check.Receive(t, "the script that shuts the gate is held back", held.Caught())
	held.Pass()
	check.OK(t, check.Receive(t, "the gate is shut", ended))
}
