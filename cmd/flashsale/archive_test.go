package main

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/store"
)

// The account that OPERATIONS.md describes may migrate, sell and archive. Without the rights on the
// archive, the error names them.
func TestAccountOfOperations(t *testing.T) {
	needReal(t)
	server := servertest.OpenMySQL(t, servers.MySQLConfig{})
	admin, err := sql.Open("mysql", server.DSN(""))
	check.Must(t, err)
	defer admin.Close()
	var archive []string
	for _, statement := range regexp.MustCompile(`(?m)^(?:CREATE (?:DATABASE|USER)|GRANT) .*;$`).FindAllString(read(t, "cmd/flashsale/OPERATIONS.md"), -1) {
		statement = strings.ReplaceAll(statement, "flashsale@", "shop@") // the tests' own account is flashsale
		if strings.Contains(statement, "archive") {
			archive = append(archive, statement)
			continue
		}
		check.OK(t, check.Err(admin.ExecContext(t.Context(), statement)))
	}
	dsn := strings.Replace(server.DSN("flashsale"), "flashsale@", "shop:PASSWORD@", 1)
	if out, _, err := command(t, "migrate", "--mysql", dsn); err != nil {
		t.Fatalf("flashsale migrate: got output %q, error %v, want none", out, err)
	}
	st, err := store.Open(dsn, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	now := time.Now().UTC()
	_, err = st.PutSale(t.Context(), orders.Sale{
		SKU: "S", Name: "A thing", Currency: "EUR", Total: 1, UnitsPerBuyer: 1, PaymentWindowS: 1, OpensAt: now.Add(-2 * time.Hour), ClosesAt: now.Add(-time.Hour),
	})
	check.Must(t, err)
	check.Must(t, st.DB.Exec("UPDATE sales SET mode = 'over', updated_at = closes_at").Error)
	args := []string{"sale", "archive", "S", "--after", "1ms", "--mysql", dsn}
	refuses(t, args, "open archive flashsale_archive: ", "GRANT CREATE, SELECT, INSERT ON flashsale_archive.*")
	check.OK(t, check.Err(admin.ExecContext(t.Context(), archive[0])))
	check.OK(t, check.Err(admin.ExecContext(t.Context(), "GRANT CREATE, SELECT ON flashsale_archive.* TO shop@'%'")))
	refuses(t, args, "archive S: ", "GRANT CREATE, SELECT, INSERT ON flashsale_archive.*")
	check.OK(t, check.Err(admin.ExecContext(t.Context(), archive[1])))
	if out, _, err := command(t, args...); err != nil || !strings.Contains(out, "S is in flashsale_archive") {
		t.Errorf("flashsale sale archive with the rights of OPERATIONS.md: got output %q, error %v, want none", out, err)
	}
}

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
