package app

import (
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
)

// A failover by Sentinel loses the last writes. Each unit is sold once nevertheless.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	sentinel := servertest.OpenRedisSentinel(t)
	s := &servers.Stores{Kind: servers.KindReal, RedisURL: sentinel.URL, SQL: servertest.OpenSQL(t, servers.KindReal)}
	failsOver(t, s, sentinel.WaitReplicated, sentinel.DetachReplica, sentinel.Failover)
}
