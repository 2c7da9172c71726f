package keeper_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
	"flashsale/orders/internal/bare"
	"flashsale/orders/internal/kit"
	"flashsale/orders/store"
)

// inherited are statements of an init_connect, each with a variable and the value that a session
// of a Store gives to it, or one of several values.
var inherited = []struct{ set, variable, want string }{
	{"SET autocommit = 0", "autocommit", "1"},
	{"SET autocommit = 0, completion_type = 'RELEASE'", "completion_type", "NO_CHAIN"},
	{"SET completion_type = 'CHAIN'", "completion_type", "NO_CHAIN"},
	{"START TRANSACTION", "", ""},
	{"SET SESSION TRANSACTION READ ONLY", "", ""},
	{"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "", ""},
	{"SET time_zone = '+13:00'", "time_zone", "+00:00"},
	{"SET timestamp = 1", "", ""},
	{"SET NAMES latin1", "character_set_results", "utf8mb4"},
	{"SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE'", "sql_mode", "STRICT_ALL_TABLES"},
	{"SET sql_select_limit = 1", "sql_select_limit", "18446744073709551615"},
	{"SET sql_safe_updates = 1", "sql_safe_updates", "0"},
	{"SET sql_big_selects = 0, max_join_size = 1", "sql_big_selects", "1"},
	{"SET sql_auto_is_null = 1", "sql_auto_is_null", "0"},
	{"SET unique_checks = 0", "unique_checks", "1"},
	{"SET max_sort_length = 64", "max_sort_length", "1024"},
	{"SET default_storage_engine = 'MEMORY'", "default_storage_engine", "InnoDB"},
	{"SET innodb_lock_wait_timeout = 1", "innodb_lock_wait_timeout", "5"},
	{"SET wait_timeout = 1", "wait_timeout", "5"},
	{"SET max_execution_time = 1000", "max_execution_time", "0"},
	{"SET max_statement_time = 1", "max_statement_time", "0"},
	{"SET check_constraint_checks = 0", "check_constraint_checks", "1"},
	{"SET query_cache_type = 1", "query_cache_type", "OFF"},
	{"SET wsrep_dirty_reads = 1", "wsrep_dirty_reads", "0"},
	{"SET wsrep_osu_method = 'RSU'", "wsrep_osu_method", "TOI"},
}

// A sale goes from its creation to its end whatever the sessions inherit, even if the account has
// rights on its own database only. A second session reads each answered
// change, which proves that it is committed.
func TestSaleWhateverItsSessionsInherit(t *testing.T) {
	t.Parallel()
	cfg := servers.MySQLConfig{ExtraArgs: []string{"--loose-skip-character-set-client-handshake", "--character-set-server=latin1", "--sysdate-is-now", "--loose-query-cache-type=ON"}}
	if folder := os.Getenv("FLASHSALE_TEST_MYSQL9"); folder != "" {
		cfg.SearchPath = []string{folder}
	}
	server := servertest.OpenMySQL(t, cfg)
	dsn, err := server.NewDatabase(t.Context(), "privileged") // init_connect does not run for this account
	check.Must(t, err)
	privileged := bare.OpenStore(t, dsn).DB
	kit.Exec(t, privileged, "CREATE USER seller@'127.0.0.1'")
	var all []string
	for _, c := range inherited {
		var known []struct{ Value string }
		check.Must(t, privileged.Raw("SHOW VARIABLES WHERE variable_name = ?", c.variable).Scan(&known).Error)
		if len(known) == 0 && c.variable != "" { // another engine has this variable
			continue
		}
		all = append(all, c.set)
		t.Run(strings.ReplaceAll(c.set, " ", "_"), func(t *testing.T) {
			b := sellAs(t, server, privileged, c.set)
			if c.variable != "" {
				var got string
				check.Must(t, b.Store.DB.Raw("SELECT @@"+c.variable).Row().Scan(&got))
				if got != c.want && !strings.Contains(got, c.want+",") {
					t.Errorf("%s of a session: got %s, want %s", c.variable, got, c.want)
				}
			}
		})
	}
	t.Run("all", func(t *testing.T) { sellAs(t, server, privileged, strings.Join(all, "; ")) })

	// No session can change max_allowed_packet.
	kit.Exec(t, privileged, "SET GLOBAL max_allowed_packet = 65536")
	st, err := store.Open(dsn, store.Config{})
	check.Must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("start with small packets: got error %v, want one that names max_allowed_packet", err)
	}
}

// sellAs opens and ends a sale with an account whose sessions begin with the statement set.
func sellAs(t *testing.T, server *servers.MySQL, privileged *gorm.DB, set string) *bare.Bare {
	t.Helper()
	name := fmt.Sprint("seller_", time.Now().UnixNano())
	dsn, err := server.NewDatabase(t.Context(), name)
	check.Must(t, err)
	kit.Exec(t, privileged, "GRANT ALL ON "+name+".* TO seller@'127.0.0.1'")
	kit.Exec(t, privileged, "SET GLOBAL init_connect = ?", set)
	b := busySale(t, &servers.Stores{SQL: strings.Replace(dsn, "flashsale@", "seller@", 1), RedisURL: servertest.OpenRedis(t, servers.KindEmbedded).URL})
	b.Keeper(t, "S").Finish(t)
	long := kit.Sale("long", 1, 1)
	long.Name = strings.Repeat("ü", 150)
	check.OK(t, check.Err(b.Store.PutSale(t.Context(), long)))

	seen := &bare.Bare{Store: bare.OpenStore(t, dsn), Rdb: b.Rdb, Gate: b.Gate}
	kit.MustBeEmpty(t, wrongAfterBusySale(t, seen))
	now := kit.ClockOf(t, seen.Store.DB)
	for id, o := range seen.Rows(t) {
		for _, at := range []*time.Time{o.PaidAt, o.ClosedAt, o.RestoredAt} {
			if at != nil && now.Sub(*at).Abs() > time.Minute {
				t.Errorf("order %s: got time %s, want about %s", id, at, now)
			}
		}
	}
	var letters int
	check.Must(t, seen.Store.DB.Raw("SELECT COALESCE(SUM(CHAR_LENGTH(name)), 0) FROM sales WHERE sku = 'long'").Row().Scan(&letters))
	if letters != len(long.Name)/2 {
		t.Errorf("name of 150 letters: got %d letters in the database", letters)
	}
	// No later statement of the session has committed this payment.
	last := b.Reserve(t, "zoe", "", 1)
	b.Keeper(t, "S").Finish(t)
	check.Must(t, check.Err(b.Store.Pay(t.Context(), "zoe", last, "ref")))
	if got := seen.Rows(t)[last].Status; got != orders.Paid {
		t.Errorf("order that was paid: got status %s on another session, want paid", got)
	}
	return b
}
