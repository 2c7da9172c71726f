package servers

import (
	"fmt"
	"os"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

// After the primary of a group was killed, the next primary has all confirmed rows, and
// the old one can join the group again.
func TestMySQLGroup(t *testing.T) {
	folder := os.Getenv("FLASHSALE_TEST_MYSQL9")
	if folder == "" {
		t.Skip("FLASHSALE_TEST_MYSQL9 is not set to a folder with the mysqld of MySQL 9")
	}
	first := startMySQL(t, MySQLConfig{SearchPath: []string{folder}, Group: true})
	members := append([]*MySQL{first}, first.Members...)
	_, err := first.NewDatabase(t.Context(), "shop")
	need(t, err)
	_, err = openMySQL(t, members[0].DSN("shop")).ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)")
	need(t, err)
	write := func(m *MySQL, id int) error {
		_, err := openMySQL(t, m.DSN("shop")).ExecContext(t.Context(), fmt.Sprintf("INSERT INTO t VALUES (%d)", id))
		return err
	}
	need(t, write(members[0], 1))
	if write(members[1], 2) == nil {
		t.Error("write to a secondary: got no error, want one")
	}
	members[0].Kill()
	var next *MySQL
	check.Eventually(t, "the group has another primary", func() bool {
		for _, m := range members[1:] {
			if m.IsPrimary(t.Context()) {
				next = m
			}
		}
		return next != nil
	})
	need(t, write(next, 3))
	var n int
	need(t, openMySQL(t, next.DSN("shop")).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n))
	if n != 2 {
		t.Errorf("rows on the new primary: got %d, want 2", n)
	}
	need(t, members[0].Restart(t.Context()))
	need(t, members[0].JoinGroup(t.Context(), next.Addr()))
	need(t, openMySQL(t, members[0].DSN("shop")).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n))
	if n != 2 {
		t.Errorf("rows on the rejoined member: got %d, want 2", n)
	}
}
