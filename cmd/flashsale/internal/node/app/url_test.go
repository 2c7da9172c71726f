package app

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// Several hosts are a cluster or, with redis+sentinel, sentinels. Errors contain no
// password.
func TestRedisURL(t *testing.T) {
	o, err := redisOptions("redis://user:pass@a:1,b:2,c:3/0")
	if err != nil || fmt.Sprint(o.Addrs) != "[a:1 b:2 c:3]" || !o.IsClusterMode || o.Password != "pass" {
		t.Errorf("Redis URL of a cluster: got options %+v, error %v, want three addresses, cluster mode and the password", o, err)
	}
	if one, err := redisOptions("redis://a:1/2"); err != nil || one.IsClusterMode || one.DB != 2 {
		t.Errorf("Redis URL of a single server: got options %+v, error %v, want database 2 without cluster mode", one, err)
	}
	for url, want := range map[string]string{
		"redis+sentinel://user:p@a:1,b:2/shop/3": "[a:1 b:2] shop 3 p",
		"redis+sentinel://a:1/shop":              "[a:1] shop 0 ",
		"redis+sentinel://a:1/shop?db=2":         "[a:1] shop 2 ",
		"redis://:a,b@h:1,i":                     "[h:1 i:6379]  0 a,b",
		"redis://:a%2Cb@h:1/0":                   "[h:1]  0 a,b",
		"redis://:abc:@h:1/0":                    "[h:1]  0 abc:",
		"redis://:a@b@h:1/0":                     "[h:1]  0 a@b",
		"redis://:%2F%3F%23%25%20@h:1/0":         "[h:1]  0 /?#% ",
		"redis://[::1]:6380,[::1]":               "[[::1]:6380 [::1]:6379]  0 ",
	} {
		o, err := redisOptions(url)
		if err != nil {
			t.Errorf("Redis URL %s: got error %v, want none", url, err)
			continue
		}
		if got := fmt.Sprint(o.Addrs, " ", o.MasterName, " ", o.DB, " ", o.Password); got != want || o.IsClusterMode != (len(o.Addrs) > 1 && o.MasterName == "") {
			t.Errorf("Redis URL %s: got %s, want %s", url, got, want)
		}
	}
	if _, err := redisOptions("redis+sentinel://a:1"); err == nil || !strings.Contains(err.Error(), "master") {
		t.Errorf("sentinel URL without a master: got error %v, want one that names the master", err)
	}
	_, err = redisOptions("user:geheim@host")
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Errorf("Redis URL with an error: got error %v, want an error without the password", err)
	}
	if got := Redact("root:geheim@tcp(h:1)/db"); got != "root:***@tcp(h:1)/db" {
		t.Errorf("Redact of a MySQL DSN: got %s, want the password replaced by ***", got)
	}
}

// Each option of a Redis URL is honored or refused, and so is everything else in it.
func TestRedisURLOptions(t *testing.T) {
	o, err := redisOptions("rediss+sentinel://a:1,b:2/shop?protocol=2&client_name=x&db=3&sentinel_username=u&sentinel_password=p%26w&skip_verify=true")
	check.Must(t, err)
	if got := fmt.Sprint(o.Protocol, o.ClientName, o.DB, o.SentinelUsername, o.SentinelPassword, o.TLSConfig.InsecureSkipVerify); got != "2x3up&wtrue" {
		t.Errorf("options of the URL: got %s, want 2x3up&wtrue", got)
	}
	for _, bad := range []string{
		"redis://a:1/0?protocl=2", "redis://a:1/0?pool_size=3", "redis://a:1/0?read_timeout=1s", "redis://a:1/0?client_name=x&client_name=y",
		"redis://a:1/0?protocol=4", "redis://a:1/0?protocol=x", "redis://a:1/0?sentinel_password=p", "redis://a:1/0?server_name=n", "redis://a:1/0?skip_verify=true",
		"redis://a:1,b:2/3", "redis://a:1/2?db=3", "redis://a:1,b:2/0?db=3", "redis://a:1/0/1", "redis://a:1/0#b", "redis://:1#b@a:1/0", "redis://geheim@a:1/0",
		"redis://:@a:1/0", "redis://u:@a:1/0", "redis://a:1,,b:2", "redis://", "redis://a:1,b:x", "unix:///tmp/redis.sock", "http://a:1", "//a:1", "a:1",
		"redis+sentinel://a:1/shop/0/1", "redis://:a/b@c:1/0", "redis://a:1/0?client_name=%zz",
	} {
		if o, err := redisOptions(bad); err == nil {
			t.Errorf("Redis URL %s: got options %+v, want an error", bad, o)
		}
	}
	for _, secret := range []string{
		"redis+sentinel://:geheim@a:1/shop?sentinel_password=geheim&db=x", "redis+sentinel://a:1/shop?x=y&sentinel_password=ge@heim", "redis://:a/geheim@c:1/0",
		"redis+sentinel://:p@a:1/shop?sentinel_password=geheim@geheim",
	} {
		_, err := redisOptions(secret)
		if shown := fmt.Sprint(Redact(secret), err); strings.Contains(shown, "heim") {
			t.Errorf("Redact and the error of a URL with secrets: got %s, want none of them", shown)
		}
	}
}

// Each node of a cluster with TLS is verified by its own name, or by another name of the URL. In the
// first two URLs, a node is gone, and the certificate of the other one does not have its name.
func TestRedisClusterTLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil) // its certificate is valid for 127.0.0.1, but not for localhost
	t.Cleanup(certified.Close)
	server := miniredis.NewMiniRedis()
	check.Must(t, server.StartTLS(&tls.Config{Certificates: certified.TLS.Certificates}))
	t.Cleanup(server.Close)
	for url, works := range map[string]bool{
		"rediss://localhost:1," + server.Addr():                   true,
		"rediss://" + server.Addr() + ",localhost:1":              true,
		"rediss://localhost:" + server.Port():                     false,
		"rediss://localhost:" + server.Port() + ",127.0.0.1:1":    true,
		"rediss://127.0.0.1.invalid:1,localhost:" + server.Port(): false,
	} {
		o, err := redisOptions(url)
		check.Must(t, err)
		o.TLSConfig.RootCAs = certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		rdb := redis.NewUniversalClient(o)
		if err := rdb.Set(t.Context(), "k", 1, 0).Err(); (err == nil) != works {
			t.Errorf("write to %s: got error %v, want success: %t", url, err, works)
		}
		_ = rdb.Close()
	}
}

// Sentinels may have a password of their own.
func TestSentinelPassword(t *testing.T) {
	t.Parallel()
	s := servertest.OpenRedisSentinel(t)
	sentinel := openRedis(t, "redis://"+s.Sentinel.Addr())
	check.Must(t, sentinel.Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">p&w").Err())
	for options, works := range map[string]bool{"": false, "?sentinel_password=" + url.QueryEscape("p&w"): true} {
		rdb, err := OpenRedis(s.URL + options)
		check.Must(t, err)
		if err := rdb.Ping(t.Context()).Err(); (err == nil) != works {
			t.Errorf("Redis behind sentinels with a password, options %q: got error %v, want success: %t", options, err, works)
		}
		_ = rdb.Close()
	}
}
