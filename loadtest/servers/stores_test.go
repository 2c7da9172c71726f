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
		KindEmbedded: StartEmbedded,
		KindReal:     func(ctx context.Context) (*Stores, error) { return StartReal(ctx, Config{}) },
	}
	for kind, start := range starts {
		t.Run(kind, func(t *testing.T) {
			if kind == KindReal {
				needReal(t)
			}
			t.Setenv("TMPDIR", t.TempDir())
			s, err := start(t.Context())
			need(t, err)
			defer s.Close()
			if s.Kind != kind {
				t.Errorf("kind of the stores: got %q, want %q", s.Kind, kind)
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
			// Make sure that remains finds directories and listeners.
			if left := remains(t, addrs...); len(left) < 2 {
				t.Fatalf("while running: got %v, want a directory and a listener", left)
			}
			for _, pid := range pids {
				if ended(pid) {
					t.Fatalf("process %d while the stores run: got its end, want it running", pid)
				}
			}

			need(t, s.Close())
			if left := remains(t, addrs...); len(left) > 0 {
				t.Errorf("after Close: got %v, want nothing", left)
			}
			for _, pid := range pids {
				if !ended(pid) {
					t.Errorf("process %d after Close: got it running, want its end", pid)
				}
			}
			need(t, s.Close()) // a second Close does nothing
		})
	}
}

// checkServes writes to each store.
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
			t.Fatalf("embedded stores: got SQL %q, want sqlite:…", s.SQL)
		}
		need(t, os.WriteFile(file, nil, 0o600)) // fails without the directory
		return
	}
	db, err := sql.Open("mysql", s.SQL)
	need(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)")
	need(t, err)
}

func TestNotInstalledNamesPackages(t *testing.T) {
	nowhere := []string{t.TempDir()}
	_, err := StartReal(t.Context(), Config{
		Redis: RedisConfig{SearchPath: nowhere}, MySQL: MySQLConfig{SearchPath: nowhere},
	})
	if !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("start without the program: got error %v, want ErrNotInstalled", err)
	}
	for _, want := range []string{"apt-get install redis-server", "apt-get install mariadb-server", nowhere[0]} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error of a missing program: got no %q in:\n%v", want, err)
		}
	}
}

// If MySQL and MariaDB are installed, the order of $PATH decides. Within a folder,
// mariadbd is preferred, because its mysqld is only a link.
func TestFindPrefersFirstFolder(t *testing.T) {
	mysql, both, none := t.TempDir(), t.TempDir(), t.TempDir()
	for _, file := range []string{mysql + "/mysqld", both + "/mysqld", both + "/mariadbd"} {
		need(t, os.WriteFile(file, nil, 0o700))
	}
	for want, folders := range map[string][]string{
		mysql + "/mysqld":  {none, "", mysql, both},
		both + "/mariadbd": {both, mysql},
	} {
		if got, err := findMySQL(folders); got != want || err != nil {
			t.Errorf("find in %v: got %s, error %v, want %s", folders, got, err, want)
		}
	}
}

// A cancelled start leaves no files.
func TestCancelledStartLeavesNothing(t *testing.T) {
	needReal(t)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, start := range map[string]func() error{
		"embedded": func() error { _, err := StartEmbedded(ctx); return err },
		"redis":    func() error { _, err := StartRedis(ctx, RedisConfig{}); return err },
		"mysql":    func() error { _, err := StartMySQL(ctx, MySQLConfig{}); return err },
	} {
		err := start()
		if errors.Is(err, ErrNotInstalled) {
			need(t, err)
		}
		if err == nil {
			t.Errorf("start of %s under a cancelled context: got no error, want one", name)
		}
	}
	if left := remains(t); len(left) > 0 {
		t.Errorf("files: got %v, want none", left)
	}
}
