package main

import (
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders/controller"
	"flashsale/orders/store"
)

// doctor accepts good settings and reports each bad one.
func TestDoctor(t *testing.T) {
	s := servertest.Open(t, servers.KindReal)
	o, err := redis.ParseURL(s.RedisURL)
	check.Must(t, err)
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	set := func(name, value string) {
		t.Helper()
		check.Must(t, rdb.ConfigSet(t.Context(), name, value).Err())
	}
	look := func(want string, bad bool) {
		t.Helper()
		out, _, err := command(t, "doctor", "--redis", s.RedisURL, "--mysql", s.SQL)
		var exit exitCode
		if errors.As(err, &exit) != bad || !strings.Contains(out, want) {
			t.Errorf("flashsale doctor: got error %v, want findings that are bad: %v, and %q in:\n%s", err, bad, want, out)
		}
	}
	db, err := sql.Open("mysql", s.SQL)
	check.Must(t, err)
	defer db.Close()
	sync := func(value string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), "SET GLOBAL innodb_flush_log_at_trx_commit = "+value+", GLOBAL sync_binlog = "+value)
		check.Must(t, err)
	}
	sync("0") // the setting of test servers
	look("BAD   mysql: innodb_flush_log_at_trx_commit 0", true)
	sync("1")
	set("appendonly", "yes")
	set("appendfsync", "always")
	look("ok    redis: appendonly yes, appendfsync always", false)
	look("ok    clocks: MySQL's is", false)
	set("appendfsync", "everysec")
	look("warn  redis: appendonly yes", false)
	set("appendonly", "no")
	look("BAD   redis: appendonly no", true)
	set("appendonly", "yes")
	set("maxmemory-policy", "volatile-lru")
	look("warn  redis: maxmemory-policy", false)
	set("maxmemory-policy", "allkeys-lru")
	look("BAD   redis: maxmemory-policy", true)
	set("maxmemory-policy", "noeviction")
	check.Must(t, rdb.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">pw", "~*", "&lock-client:*", "+@all", "-info", "-hscan").Err())
	open := s.RedisURL
	s.RedisURL = strings.Replace(open, "redis://", "redis://blind:pw@", 1)
	look("BAD   redis: refuses INFO replication, HSCAN sale:{:rights} 0, PUBLISH orders:notice:rights [], SUBSCRIBE sale:woken ", true)
	s.RedisURL = open
	look("ok    redis: accepts every command of a node", false)
	// A node of another database owns Redis, or has tried to use it.
	look("ok    redis: belongs to no other database", false)
	check.Must(t, rdb.Set(t.Context(), "shop-b:"+controller.OwnerKey, "proof-b\nplace\nnode b", 0).Err())
	look("ok    redis: belongs to no other database", false)
	check.Must(t, rdb.Set(t.Context(), controller.OwnerKey, "proof\nplace\nnode a", 0).Err())
	look("BAD   redis: belongs to node a", true)
	for _, statement := range []string{"CREATE TABLE nodes (id VARCHAR(64), stats VARCHAR(8000))", "INSERT INTO nodes VALUES ('" + store.OwnerRow + "', 'new proof old')"} {
		_, err := db.ExecContext(t.Context(), statement)
		check.Must(t, err)
	}
	look("ok    redis: belongs to no other database", false)
	check.Must(t, rdb.Set(t.Context(), controller.RivalKey, "place\nnode c", 0).Err())
	look("BAD   redis: is also used by node c", true)
	if out, _, err := command(t, "doctor", "--redis", s.RedisURL, "--mysql", s.SQL, "--namespace", "shop-b"); err == nil || !strings.Contains(out, "BAD   redis: belongs to node b") {
		t.Errorf("flashsale doctor --namespace: got error %v, want a finding about node b in:\n%s", err, out)
	}
	if out, _, err := command(t, "doctor", "--redis", s.RedisURL, "--mysql", s.SQL, "--nodes", "10000"); err == nil || !strings.Contains(out, "max_connections = ") {
		t.Errorf("flashsale doctor --nodes 10000: got error %v, want an error and a finding about max_connections:\n%s", err, out)
	}
	// The owner of Redis is unknown while a store does not answer.
	for stores, missing := range map[[2]string]int{
		{"redis://127.0.0.1:1", "u:p@tcp(127.0.0.1:1)/d"}: 2, {"redis://127.0.0.1:1", s.SQL}: 1, {s.RedisURL, "u:p@tcp(127.0.0.1:1)/d"}: 1,
	} {
		out, _, err := command(t, "doctor", "--redis", stores[0], "--mysql", stores[1])
		if err == nil || strings.Count(out, "does not answer") != missing || strings.Contains(out, "belongs to") {
			t.Errorf("flashsale doctor with %d stores missing: got error %v, want an error, \"does not answer\" for each, and no owner:\n%s", missing, err, out)
		}
	}
}

// With Sentinel, doctor checks that an isolated master stops accepting writes.
func TestDoctorWithSentinel(t *testing.T) {
	s := servertest.OpenRedisSentinel(t)
	master := redis.NewClient(&redis.Options{Addr: s.Master.Addr()})
	t.Cleanup(func() { _ = master.Close() })
	for value, want := range map[string]string{"0": "warn  redis: min-replicas-to-write 0", "1": "ok    redis: min-replicas-to-write 1"} {
		check.Must(t, master.ConfigSet(t.Context(), "min-replicas-to-write", value).Err())
		if out, _, err := command(t, "doctor", "--redis", s.URL, "--mysql", "u:p@tcp(127.0.0.1:1)/d"); !strings.Contains(out, want) {
			t.Errorf("flashsale doctor with Sentinel: got error %v, want %q in:\n%s", err, want, out)
		}
	}
}

// The URLs of both stores may ask for TLS. A store is refused unless its certificate is signed by an
// authority of the system or of SSL_CERT_FILE.
func TestStoresWithTLS(t *testing.T) {
	needReal(t)
	certified := httptest.NewTLSServer(nil) // its certificate is valid for 127.0.0.1, and signed by itself
	t.Cleanup(certified.Close)
	key, err := x509.MarshalPKCS8PrivateKey(certified.TLS.Certificates[0].PrivateKey)
	check.Must(t, err)
	pair := filepath.Join(t.TempDir(), "pair.pem")
	check.Must(t, os.WriteFile(pair, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), 0o600))
	addr, err := servers.FreeAddr(t.Context())
	check.Must(t, err)
	_, port, _ := net.SplitHostPort(addr)
	r, err := servers.StartRedis(check.Context(t), servers.RedisConfig{ExtraArgs: []string{
		"--tls-port", port, "--tls-cert-file", pair, "--tls-key-file", pair, "--tls-ca-cert-file", pair, "--tls-auth-clients", "no",
	}})
	skipUnlessInstalled(t, err)
	check.Must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	dsn, err := servertest.OpenMySQL(t, servers.MySQLConfig{ExtraArgs: []string{"--ssl-cert=" + pair, "--ssl-key=" + pair}}).NewDatabase(check.Context(t), "tls")
	check.Must(t, err)
	dsn += "?tls=true"
	for authorities, want := range map[string][2]string{
		pair: {"migrations applied: ", "redis: accepts every command"},
		"":   {"signed by unknown authority", "redis: does not answer: tls: failed to verify certificate"},
	} {
		for i, args := range [][]string{{"migrate", "--mysql", dsn}, {"doctor", "--redis", "rediss://" + addr, "--mysql", dsn}} {
			cmd := exec.CommandContext(check.Context(t), os.Args[0], args...)
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+authorities)
			if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want[i]) {
				t.Errorf("flashsale %v with the authorities %q: got %s, want %q", args, authorities, out, want[i])
			}
		}
	}
}
