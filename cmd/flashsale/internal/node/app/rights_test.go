package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
	"flashsale/orders"
)

// withAccount returns a real Redis, and stores with the account of OPERATIONS.md on it.
func withAccount(t *testing.T) (s *servers.Stores, rdb *redis.Client) {
	t.Helper()
	s = servertest.Open(t, servers.KindReal)
	rdb = openRedis(t, s.RedisURL)
	addAccount(t, rdb)
	s.RedisURL = asAccount(s.RedisURL)
	return s, rdb
}

func asAccount(url string) string {
	return strings.Replace(url, "redis://", "redis://flashsale:PASSWORD@", 1)
}

// addAccount creates the account of OPERATIONS.md on one server.
func addAccount(t *testing.T, rdb *redis.Client) {
	t.Helper()
	text, err := os.ReadFile("../../../OPERATIONS.md")
	check.Must(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER flashsale .*`).FindString(string(text))
	var args []any
	for _, word := range strings.Fields(line) {
		args = append(args, word)
	}
	check.Must(t, rdb.Do(t.Context(), args...).Err())
}

// wantNoDenied checks that the server has refused no command of an account.
func wantNoDenied(t *testing.T, rdb *redis.Client) {
	t.Helper()
	if denied, err := rdb.ACLLog(t.Context(), 1).Result(); err != nil || len(denied) > 0 {
		t.Errorf("log of denied commands: got %d entries, error %v, want none", len(denied), err)
		for _, entry := range denied {
			t.Logf("denied: %+v", *entry)
		}
	}
}

func setUser(t *testing.T, rdb *redis.Client, rights ...any) {
	t.Helper()
	check.Must(t, rdb.Do(t.Context(), append([]any{"ACL", "SETUSER", "flashsale"}, rights...)...).Err())
}

// The account that OPERATIONS.md describes has all rights that a sale needs.
func TestDocumentedAccount(t *testing.T) {
	t.Parallel()
	s, rdb := withAccount(t)
	n := start(t, s, func(c *Config) {
		quick(c)
		c.LimitBuyer, c.LimitIP = parseLimit(t, "100/s:100"), parseLimit(t, "100/s:100")
	})
	n.put("S", 5, 2, 900)
	paid, cancelled := n.sold("S", "ann").where(), n.sold("S", "bob").where()
	n.pay("ann", paid, "ref").want(200)
	n.cancel("bob", cancelled).want(200)
	n.put("S", 6, 2, 900)
	n.send("POST", "/v1/admin/sales/S/rebuild", n.token("operator", true), "").want(200)
	n.put("P", 1, 1, 900, onPayment)
	n.pay("ann", n.sold("P", "ann").where(), "ref").want(200)
	n.audited("S", `"available":5,"queued":0,"sold":1`, `"balanced":true`)
	n.send("GET", "/readyz", "", "").want(200).contains(`"ok"`)
	check.Must(t, n.stop())
	wantNoDenied(t, rdb)
}

// A node whose account has no channels or no INFO sells. Its log and /readyz report what Redis
// refuses, until the account is allowed to.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	s, rdb := withAccount(t)
	log := check.Output(t)
	setUser(t, rdb, "resetchannels", "-info")
	n := start(t, s, func(c *Config) { quick(c); c.Wait = 20 * time.Second; c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	if !strings.Contains(log.String(), "Redis refuses") {
		t.Error("log of a node without rights: got no \"Redis refuses\", want one")
	}
	n.put("S", 5, 1, 900)
	for _, buyer := range []string{"ann", "bob", "eve"} {
		n.sold("S", buyer)
	}
	ready := func(what string, texts ...string) {
		t.Helper()
		check.Eventually(t, what, func() bool { return n.send("GET", "/readyz", "", "").want(200).has(texts...) })
	}
	ready("all refused commands are reported", `"degraded"`, "PUBLISH", "SUBSCRIBE", "INFO")
	setUser(t, rdb, "allchannels", "+info", "-publish")
	ready("one refused command is reported", `"detail":"Redis refuses PUBLISH`)
	setUser(t, rdb, "+publish")
	ready("nothing is refused", `"ok"`)
	if woken := rdb.PubSubNumSub(t.Context(), "sale:woken").Val(); woken["sale:woken"] != 1 {
		t.Errorf("subscriptions of a node that may subscribe again: got %v, want one", woken)
	}
}

// A node tries every command of the scripts that it sends.
func TestEveryCommandIsTried(t *testing.T) {
	const root = "../../../../../"
	var scripts []string
	for _, files := range []string{"inventory/*.lua", "orders/lock/internal/onredis/*.lua", "orders/lock/redlock/*.lua", "orders/controller/*.lua", "ratelimit/*.lua"} {
		found, err := filepath.Glob(root + files)
		if err != nil || len(found) == 0 {
			t.Fatalf("scripts %s: got none, error %v", files, err)
		}
		scripts = append(scripts, found...)
	}
	for _, script := range scripts {
		source, err := os.ReadFile(script)
		check.Must(t, err)
		for _, call := range regexp.MustCompile(`call\('([A-Z]+)'`).FindAllStringSubmatch(string(source), -1) {
			if !regexp.MustCompile(`(^|;\s)` + call[1] + `[ ;]`).MatchString(commands) {
				t.Errorf("command %s of %s: got no trial of it, want one", call[1], script)
			}
		}
	}
}

// Some managed Redis services have no INFO with a master_replid, or lack a command. Both count as
// refused.
func TestRefusedByManagedRedis(t *testing.T) {
	t.Parallel()
	rdb := openRedis(t, servertest.OpenRedis(t, servers.KindEmbedded).URL)
	rdb.AddHook(managed{})
	refused, err := Refused(t.Context(), rdb, "")
	if want := []string{"INFO replication (no master_replid)", "HSCAN sale:{:rights} 0"}; err != nil || !slices.Equal(refused, want) {
		t.Errorf("refused commands: got %q, error %v, want %q", refused, err, want)
	}
}

// managed changes two answers.
type managed struct{}

func (managed) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (managed) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (managed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			switch cmd.Name() {
			case "info":
				cmd.SetErr(nil)
				cmd.(*redis.Cmd).SetVal("role:master")
			case "hscan":
				cmd.SetErr(refusal("ERR unknown command 'HSCAN'"))
			}
		}
		return err
	}
}

type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// A trial of the rights leaves the keys of all sales alone, also of a sale that is named like the
// trial.
func TestRightsLeaveSalesAlone(t *testing.T) {
	t.Parallel()
	rdb := openRedis(t, servertest.OpenRedis(t, servers.KindEmbedded).URL)
	check.Must(t, rdb.HSet(t.Context(), "sale:{rights}", "total", 1).Err())
	check.Must(t, rdb.Set(t.Context(), "lock:{rights}", "token", 0).Err())
	before := rdb.Keys(t.Context(), "*").Val()
	check.Must(t, check.Err(Refused(t.Context(), rdb, "")))
	for _, key := range before {
		if rdb.Exists(t.Context(), key).Val() == 0 {
			t.Errorf("key %s: got it deleted, want it unchanged", key)
		}
	}
	for _, word := range strings.Fields(commands) {
		if tag, _, tagged := strings.Cut(word[strings.Index(word, "{")+1:], "}"); tagged && orders.IsSKU(tag) {
			t.Errorf("name %s: got the tag of a sale, want one that no SKU has", word)
		}
	}
}
