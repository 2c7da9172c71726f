package servertest_test

import (
	"database/sql"
	"os"
	"slices"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// want reports whether f ran on all kinds that must run.
func want(ran []string) bool {
	if os.Getenv("FLASHSALE_TEST_REAL") == "require" {
		return slices.Equal(ran, servertest.Kinds())
	}
	return len(ran) > 0 && ran[0] == servers.KindEmbedded
}

// Each call of Each gets empty stores, although earlier tests have written to theirs.
func TestEachStartsEmpty(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		var ran []string
		servertest.Each(t, func(t *testing.T, s *servers.Stores) {
			ran = append(ran, s.Kind)
			o, err := redis.ParseURL(s.RedisURL)
			check.Must(t, err)
			c := redis.NewClient(o)
			defer c.Close()
			n, err := c.Incr(t.Context(), "visits").Result()
			check.Must(t, err)
			if n != 1 {
				t.Errorf("visits: got %d, want 1", n)
			}
			if seen[s.SQL] {
				t.Errorf("database %s: got it twice, want a new database per test", s.SQL)
			}
			if seen[s.SQL] = true; s.Kind == servers.KindEmbedded {
				return
			}
			db, err := sql.Open("mysql", s.SQL)
			check.Must(t, err)
			defer db.Close()
			_, err = db.ExecContext(t.Context(), "CREATE TABLE visits (id INT)") // fails if the table exists
			check.Must(t, err)
		})
		if !want(ran) {
			t.Errorf("kinds: got %v, want every kind", ran)
		}
	}
}
