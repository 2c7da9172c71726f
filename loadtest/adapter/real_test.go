package adapter_test

import (
	"strings"
	"testing"

	"flashsale/loadtest/adapter"
	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// The shops of the example have the same verdicts on MariaDB or MySQL.
func TestReal(t *testing.T) {
	ctx := check.Context(t)
	toy := openShop(ctx, "mysql", servertest.OpenSQL(t, servers.KindReal))
	toy.db.SetMaxOpenConns(64)
	t.Cleanup(func() { check.OK(t, toy.db.Close()) })
	for _, c := range []struct {
		name     string
		shop     adapter.Shop
		inFlight int
		want     string
	}{
		{"control", toy, 1, "PASS"},
		{"naive", shop{toy.db, crowd(21)}, 64, "FAIL, oversold"},
		{"careful", careful{toy}, 64, "PASS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := attack(ctx, c.shop, c.inFlight)
			check.Must(t, err)
			if got := outcome(v); got != c.want {
				var text strings.Builder
				check.OK(t, v.WriteText(&text))
				t.Errorf("verdict: got %s, want %s\n%s", got, c.want, &text)
			}
		})
	}
}
