package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// signed returns a token with sub, exp and the given claims. A nil claim is removed.
func signed(t *testing.T, secret string, claims map[string]any) string {
	t.Helper()
	all := jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, all).SignedString([]byte(secret))
	check.Must(t, err)
	return token
}

// Issuer and audience must match if a token has them. The names of claims are exact, and the
// lifetime is bounded.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	const before = "the secret that was used before this one"
	n := start(t, s, func(c *Config) { c.PreviousSecret = before })
	other := start(t, s, func(c *Config) { c.TokenIssuer, c.TokenAudience, c.TokenLife = "shop", "api", time.Hour })
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, c := range map[string]struct {
		node   *node
		secret string
		claims map[string]any
		want   int
	}{
		"neither issuer nor audience": {n, secret, nil, 200},
		"default names":               {n, secret, map[string]any{"iss": "flashsale", "aud": "flashsale"}, 200},
		"several audiences":           {n, secret, map[string]any{"aud": []string{"mail", "flashsale"}}, 200},
		"another issuer":              {n, secret, map[string]any{"iss": "mail"}, 401},
		"empty issuer":                {n, secret, map[string]any{"iss": ""}, 401},
		"another audience":            {n, secret, map[string]any{"aud": "mail"}, 401},
		"other audiences":             {n, secret, map[string]any{"aud": []string{"mail", "Flashsale"}}, 401},
		"empty audience":              {n, secret, map[string]any{"aud": []string{}}, 401},
		"as configured":               {other, secret, map[string]any{"iss": "shop", "aud": "api"}, 200},
		"default, another configured": {other, secret, map[string]any{"iss": "flashsale"}, 401},
		"SUB":                         {n, secret, map[string]any{"sub": nil, "SUB": "ann"}, 401},
		"Exp":                         {n, secret, map[string]any{"exp": nil, "Exp": in(time.Hour)}, 401},
		"exp and EXP":                 {n, secret, map[string]any{"exp": in(-time.Hour), "EXP": in(time.Hour)}, 401},
		"nbf and Nbf":                 {n, secret, map[string]any{"nbf": in(time.Hour), "Nbf": in(-time.Hour)}, 401},
		"more than --token-life":      {other, secret, map[string]any{"exp": in(2 * time.Hour)}, 401},
		"the previous secret":         {n, before, nil, 200},
		"unknown secret":              {other, before, nil, 401},
	} {
		if a := c.node.send("GET", "/v1/orders", signed(t, c.secret, c.claims), ""); a.status != c.want {
			t.Errorf("request with the token %s: got %d %s, want %d", name, a.status, a.body, c.want)
		}
	}
	n.send("GET", "/v1/admin/refunds", signed(t, secret, map[string]any{"Scope": "admin"}), "").want(403)
	if a := n.send("GET", "/v1/live?sku=S", "x.y.z", ""); a.status != 401 || a.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("request of /v1/live with a bad token: got %d %v, want 401 with WWW-Authenticate", a.status, a.header)
	}
}

// The tokens of a demo are invalid on a later node with the same secret. A foreign web page
// whose host name resolves to this machine receives no token.
func TestDemoTokens(t *testing.T) {
	t.Parallel()
	s := servertest.Open(t, servers.KindEmbedded)
	demo, another := start(t, s, func(c *Config) { c.Demo = true }), start(t, s, func(c *Config) { c.Demo = true })
	var op struct{ Token string }
	demo.send("POST", "/demo/token?role=operator", "", "").into(t, &op)
	another.send("GET", "/v1/admin/refunds", op.Token, "").want(200)
	over := start(t, s, nil)
	over.send("GET", "/v1/admin/refunds", op.Token, "").want(401)
	for host, want := range map[string]int{
		"localhost:8080": 200, "localhost": 200, "192.0.2.7:80": 200, "[::1]:8080": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:8080": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, demo.URL()+"/demo/token?role=operator", nil)
		check.Must(t, err)
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		check.Must(t, err)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("demo token for the Host %s: got %d, want %d", host, res.StatusCode, want)
		}
	}
}

// With PayScope, only a token with this scope can pay, and it can pay every buyer's order.
func TestPayScope(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Stores) {
		n := start(t, s, func(c *Config) { c.PayScope, c.LimitIP = "payments", parseLimit(t, "1/h:6") })
		n.put("S", 10, 9, 900)
		ann, psp := n.token("ann", false), signed(t, secret, map[string]any{"sub": "psp", "scope": "mail payments"})
		where := n.order("S", "ann").want(201).where()
		for _, token := range []string{ann, n.token("op", true)} { // neither the buyer nor an operator
			n.send("POST", where+"/pay", token, `{"payment_ref":"r"}`).want(403, "forbidden")
		}
		for range 10 { // the provider pays for all buyers from one address, so its payments are not limited
			n.send("POST", where+"/pay", psp, `{"payment_ref":"r"}`).want(200).contains(`"status":"paid"`, `"buyer":"ann"`)
		}
		closed := n.orderBy("S", "ann", "l").want(201).where()
		n.cancel("ann", closed).want(200)
		for path, want := range map[string]string{
			closed: "order_closed", "/v1/orders/01a1f945-8d3e-761d-bbcb-7d1dab60df27": "not_found", "/v1/orders/x": "not_found",
		} {
			if a := n.send("POST", path+"/pay", psp, `{"payment_ref":"q"}`); a.code() != want {
				t.Errorf("payment of %s by the provider: got %d %s, want %s", path, a.status, a.body, want)
			}
		}
		// The scope allows nothing else.
		for _, call := range []string{"GET " + where, "POST " + closed + "/cancel", "GET /v1/admin/refunds"} {
			method, path, _ := strings.Cut(call, " ")
			if a := n.send(method, path, psp, ""); a.status != 404 && a.status != 403 {
				t.Errorf("call %s with the provider's token: got %d %s, want 404 or 403", call, a.status, a.body)
			}
		}
	})
}

// An IPv6 /48 site has a limit, in addition to the limits of its 65,536 /64 networks.
func TestIPv6SiteIsLimited(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { c.LimitIP = parseLimit(t, "1/h:2") })
	ask := func(ip string) int { return n.send("GET", "/v1/sales", "", "", "X-Forwarded-For: "+ip).status }
	if got := []int{ask("2001:db8:7::1"), ask("2001:db8:7::2"), ask("2001:db8:7::3")}; got[1] != 200 || got[2] != 429 {
		t.Errorf("requests of one IPv6 network: got %v, want [200 200 429]", got)
	}
	passed := 0
	const letters = "123456789abcdef"
	for _, a := range letters {
		for _, b := range letters {
			if ask("2001:db8:8:"+string(a)+string(b)+"::1") == 200 {
				passed++
			}
		}
	}
	if passed != 20 {
		t.Errorf("requests of one IPv6 site: got %d admitted, want 20", passed)
	}
	if got := ask("2001:db8:9::1"); got != 200 {
		t.Errorf("request of another IPv6 site: got %d, want 200", got)
	}
	raw, _ := json.Marshal(n.send("GET", "/v1/sales", "", "", "X-Forwarded-For: 2001:db8:8:77::1").header)
	if !strings.Contains(string(raw), "ip48") {
		t.Errorf("headers of the refusal: they do not name the bucket ip48: %s", raw)
	}
}

func TestPagesHaveHeaders(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), nil)
	for _, path := range []string{"/", "/docs"} {
		a := n.send("GET", path, "", "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
		} {
			if got := a.header.Get(name); !strings.Contains(got, want) {
				t.Errorf("page %s: got header %s: %q, want %q", path, name, got, want)
			}
		}
	}
}
