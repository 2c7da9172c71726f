package servers

import (
	"errors"
	"flag"
	"os"
	"testing"

	"flashsale/loadtest/servers/servertest/check"
)

func TestMain(m *testing.M) {
	if os.Getenv(actAsParent) != "" {
		parentToBeKilled()
	}
	if len(os.Args) == 3 && os.Args[1] == actAsServer {
		serveUntilKilled(os.Args[2])
	}
	_ = flag.Set("test.parallel", "6") // like servertest.Prepare, which imports this package
	os.Exit(m.Run())
}

// need ends the test if err is not nil. If a server is not installed, it skips the test
// unless FLASHSALE_TEST_REAL=require. Package servertest has the same rule, but imports
// this package.
func need(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrNotInstalled) && os.Getenv("FLASHSALE_TEST_REAL") != "require":
		t.Skip(err)
	default:
		t.Fatalf("start a server: got error %v, want none", err)
	}
}

// needReal skips the test if FLASHSALE_TEST_REAL=off.
func needReal(t *testing.T) {
	t.Helper()
	if os.Getenv("FLASHSALE_TEST_REAL") == "off" {
		t.Skip("FLASHSALE_TEST_REAL=off")
	}
}

func startRedis(t *testing.T, o RedisConfig) *Redis {
	t.Helper()
	needReal(t)
	r, err := StartRedis(check.Context(t), o)
	need(t, err)
	t.Cleanup(func() { need(t, r.Close()) })
	return r
}

func startMySQL(t *testing.T, o MySQLConfig) *MySQL {
	t.Helper()
	needReal(t)
	m, err := StartMySQL(check.Context(t), o)
	need(t, err)
	t.Cleanup(func() { need(t, m.Close()) })
	return m
}

// remains returns the entries of the temporary folder, and the addresses that accept
// connections.
func remains(t *testing.T, addrs ...string) (left []string) {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	need(t, err)
	for _, e := range entries {
		left = append(left, "directory "+e.Name())
	}
	for _, addr := range addrs {
		if dial(t.Context(), addr) == nil {
			left = append(left, "listener "+addr)
		}
	}
	return left
}
