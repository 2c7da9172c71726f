package app

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A sale goes through a failover that loses the last writes: each unit is sold
// once, before or after, and not one more.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	sentinel := servertest.OpenRedisSentinel(t)
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: sentinel.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	failsOver(t, s, sentinel.Replicated, sentinel.Detach, sentinel.Failover)
}
