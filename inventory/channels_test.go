package inventory

import (
	"strings"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// In Redis 7, ACL SETUSER creates accounts without channels. Such an account reserves units: only
// the message that wakes the keeper is lost.
func TestReserveWithoutChannels(t *testing.T) {
	r := servertest.OpenRedis(t, servers.KindReal)
	check.Must(t, servertest.Connect(t, r.URL).Do(t.Context(), "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "resetchannels").Err())
	g, sku := newGate(servertest.Connect(t, strings.Replace(r.URL, "redis://", "redis://app:pw@", 1)), patient), newSKU()
	open(t, g, sku, 2, 2)
	for _, id := range []string{"o-1", "o-2"} { // the queue is empty only before the first order
		if _, err := g.Reserve(t.Context(), order(sku, id, "ann")); err != nil {
			t.Errorf("reserve order %s without channels: got error %v, want none", id, err)
		}
	}
	queued, err := g.ReadQueue(t.Context(), sku, "", 10)
	if err != nil || len(queued) != 2 {
		t.Errorf("queue: got %d orders, error %v, want 2", len(queued), err)
	}
}
