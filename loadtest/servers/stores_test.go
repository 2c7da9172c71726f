package servers

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestStoresLeaveNothing(t *testing.T) {
	starts := map[string]func(context.Context) (*Stores, error){
		KindEmbedded: Embedded,
		KindReal:     func(ctx context.Context) (*Stores, error) { return Real(ctx, Options{}) },
	}
	for kind, start := range starts {
		t.Run(kind, func(t *testing.T) {
			if kind == KindReal {
				needReal(t)
			}
			t.Setenv("TMPDIR", t.TempDir())
			s, err := start(t.Context())
			need(t, err)
			defer s.Close() // for a test that fails half-way
			if s.Kind != kind {
				t.Errorf("Kind = %q, want %q", s.Kind, kind)
			}
			t.Log(s.Versions)
			checkServes(t, s)

			u, err := url.Parse(s.RedisURL)
			need(t, err)
			addrs := []string{u.Host}
			var pids []int
			if s.MySQL != nil {
				addrs = append(addrs, s.MySQL.Addr())
				pids = append(pids, s.Redis.Pid(), s.MySQL.Pid())
			}
			// The check below sees directories and listeners while there are some.
			if left := remains(t, addrs...); len(left) < 2 {
				t.Fatalf("running, but only these are found: %v", left)
			}
			for _, pid := range pids {
				if ended(pid) {
					t.Fatalf("running, but process %d has ended", pid)
				}
			}

			need(t, s.Close())
			if left := remains(t, addrs...); len(left) > 0 {
				t.Errorf("left after Close: %v", left)
			}
			for _, pid := range pids {
				if !ended(pid) {
					t.Errorf("process %d left after Close", pid)
				}
			}
			need(t, s.Close()) // again: nothing to do, no error
		})
	}
}

// checkServes does one write on each store.
func checkServes(t *testing.T, s *Stores) {
	t.Helper()
	o, err := redis.ParseURL(s.RedisURL)
	need(t, err)
	c := redis.NewClient(o)
	defer c.Close()
	need(t, c.Set(t.Context(), "k", "v", 0).Err())

	if s.Kind == KindEmbedded {
		file, found := strings.CutPrefix(s.SQL, "sqlite:")
		if !found {
			t.Fatalf("SQL = %q, want sqlite:…", s.SQL)
		}
		need(t, os.WriteFile(file, nil, 0o600)) // its directory is there
		return
	}
	db, err := sql.Open("mysql", s.SQL)
	need(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)")
	need(t, err)
}

func TestNotInstalledSaysWhatToInstall(t *testing.T) {
	nowhere := []string{t.TempDir()}
	_, err := Real(t.Context(), Options{
		Redis: RedisOptions{SearchPath: nowhere}, MySQL: MySQLOptions{SearchPath: nowhere},
	})
	if !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("error = %v, want ErrNotInstalled", err)
	}
	for _, want := range []string{"apt-get install redis-server", "apt-get install mariadb-server", nowhere[0]} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

// Whoever has MySQL and MariaDB chooses by the order of $PATH; within a folder
// mariadbd wins, of which mysqld is but a link.
func TestFindTakesTheFirstFolder(t *testing.T) {
	mysql, both, none := t.TempDir(), t.TempDir(), t.TempDir()
	for _, file := range []string{mysql + "/mysqld", both + "/mysqld", both + "/mariadbd"} {
		need(t, os.WriteFile(file, nil, 0o700))
	}
	for want, folders := range map[string][]string{
		mysql + "/mysqld":  {none, "", mysql, both},
		both + "/mariadbd": {both, mysql},
	} {
		if got, err := findMySQL(folders); got != want || err != nil {
			t.Errorf("in %v: %s, %v; want %s", folders, got, err, want)
		}
	}
}

// A start that is given up leaves nothing either.
func TestCancelledStartLeavesNothing(t *testing.T) {
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, start := range map[string]func() error{
		"embedded": func() error { _, err := Embedded(ctx); return err },
		"redis":    func() error { _, err := StartRedis(ctx, RedisOptions{}); return err },
		"mysql":    func() error { _, err := StartMySQL(ctx, MySQLOptions{}); return err },
	} {
		err := start()
		if errors.Is(err, ErrNotInstalled) {
			need(t, err)
		}
		if err == nil {
			t.Errorf("%s: started under a cancelled context", name)
		}
	}
	if left := remains(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
