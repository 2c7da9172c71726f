package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/store"
)

// A sale is archived only if it is over and old enough. A repeated command does nothing.
func TestSaleArchive(t *testing.T) {
	dsn := servertest.OpenSQL(t, servers.KindReal)
	_, to, _ := strings.Cut(servertest.OpenSQL(t, servers.KindReal), "/")
	st, err := store.Open(dsn, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	_, err = st.Migrate(t.Context())
	check.Must(t, err)
	now := time.Now().UTC()
	_, err = st.PutSale(t.Context(), orders.Sale{
		SKU: "S", Name: "A thing", Currency: "EUR", Total: 1, UnitsPerBuyer: 1, PaymentWindowS: 1,
		OpensAt: now.Add(-2 * time.Hour), ClosesAt: now.Add(-time.Hour),
	})
	check.Must(t, err)
	check.Must(t, st.DB.Create(&orders.Order{ID: orders.NewOrderID("S"), SKU: "S", Buyer: "ann", Currency: "EUR", Status: orders.Paid, RestoredAt: &now, CreatedAt: now, ExpiresAt: now}).Error)
	args := []string{"sale", "archive", "S", "--mysql", dsn, "--to", to}
	refuses(t, args, "archive S", "not over", "0 orders moved")
	check.Must(t, st.DB.Exec("UPDATE sales SET mode = 'over', updated_at = closes_at").Error)
	refuses(t, args, "within the last 2160h", "0 orders moved")
	refuses(t, append(args[:5:5], "--to", to+"_none"), to+"_none", "CREATE DATABASE")
	refuses(t, append([]string{"sale", "archive", "T"}, args[3:]...), "archive T", "does not exist")
	for _, moved := range []int{1, 0} {
		out, _, err := command(t, append(args, "--after", "1ms")...)
		if want := fmt.Sprintf("S is in %s: %d orders moved\n", to, moved); err != nil || out != want {
			t.Errorf("flashsale sale archive: got output %q, error %v, want output %q", out, err, want)
		}
	}
}
