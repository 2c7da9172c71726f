package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"flashsale/loadtest/servers/servertest/check"
)

var (
	secret = []byte("0123456789abcdef0123456789abcdef")
	noon   = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
)

// clock returns the time that a test has set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func verifier(t testing.TB) (*Verifier, *clock) {
	t.Helper()
	c := &clock{now: noon}
	v, err := New(Config{Secret: secret, Clock: c.time})
	check.Must(t, err)
	return v, c
}

func TestSignedTokensAreValid(t *testing.T) {
	v, _ := verifier(t)
	for _, want := range []Identity{
		{Buyer: "b", Expires: noon.Add(time.Minute)},
		{Buyer: strings.Repeat("b", 64), Admin: true, Expires: noon.Add(time.Minute)},
		{Buyer: "Az09._:-", Expires: noon.Add(time.Minute)},
	} {
		token, err := v.Sign(want.Buyer, want.Admin, time.Minute)
		check.Must(t, err)
		for range 2 { // parsed, then cached
			id, err := v.FromHeader("bEARER  " + token + " ")
			if err != nil || id.Buyer != want.Buyer || id.Admin != want.Admin || !id.Expires.Equal(want.Expires) {
				t.Errorf("verified token: got identity %+v, error %v, want %+v", id, err, want)
			}
		}
	}
}

func TestSignRefuses(t *testing.T) {
	v, _ := verifier(t)
	for _, buyer := range []string{"", "a b", "a/b", "bü", strings.Repeat("b", 65), "a\x00"} {
		if _, err := v.Sign(buyer, false, time.Minute); err == nil {
			t.Errorf("sign a token for the subject %q: got no error, want one", buyer)
		}
	}
	if _, err := v.Sign("b", false, time.Millisecond); err == nil {
		t.Error("sign a token for a millisecond: got no error, want one")
	}
}

// The clock of the token's issuer may be a minute ahead. Expiry has no leeway.
func TestLeeway(t *testing.T) {
	v, at := verifier(t)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"sub": "b1", "nbf": noon.Add(time.Minute).Unix(), "exp": noon.Add(DefaultLife + time.Minute).Unix(),
	}).SignedString(secret)
	check.Must(t, err)
	if _, err := v.Verify(token); err != nil {
		t.Errorf("token of an issuer whose clock is a minute ahead: got error %v, want none", err)
	}
	at.set(noon.Add(DefaultLife + time.Minute))
	if _, err := v.Verify(token); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("token at its expiry: got error %v, want ErrUnauthorized", err)
	}
}

func TestNewRefusesWeakSecrets(t *testing.T) {
	for name, weak := range map[string][]byte{
		"31 bytes": secret[:31], "one character": []byte(strings.Repeat("x", 40)), "two characters": []byte(strings.Repeat("ab", 20)),
	} {
		for _, c := range []Config{{Secret: weak}, {Secret: secret, Previous: weak}} {
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), "FLASHSALE_SECRET") {
				t.Errorf("New with a secret of %s: got error %v, want one that names FLASHSALE_SECRET", name, err)
			}
		}
	}
	if _, err := New(Config{Secret: secret}); err != nil {
		t.Errorf("New with a secret of 32 bytes: got error %v, want none", err)
	}
}

// Verify rejects all bad tokens. loose is the parser with the options of its README. It
// accepts some of them, which shows that Verify needs its own checks.
func TestBadTokensAreRefused(t *testing.T) {
	v, _ := verifier(t)
	loose := jwt.NewParser(jwt.WithTimeFunc(func() time.Time { return noon }))
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	check.Must(t, err)
	good := func() jwt.MapClaims { return jwt.MapClaims{"sub": "b1", "exp": noon.Add(time.Minute).Unix()} }
	with := func(name string, value any) jwt.MapClaims {
		c := good()
		c[name] = value
		if value == nil {
			delete(c, name)
		}
		return c
	}
	sign := func(method jwt.SigningMethod, key any, c jwt.MapClaims, header ...string) string {
		token := jwt.NewWithClaims(method, c)
		for _, name := range header {
			token.Header[name] = []string{"b64"}
		}
		text, err := token.SignedString(key)
		check.Must(t, err)
		return text
	}
	hs256 := jwt.SigningMethodHS256
	valid := sign(hs256, secret, good())
	parts := strings.Split(valid, ".")
	// The last of the 43 characters of a signature has 2 unused bits.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	variant := string(alphabet[strings.IndexByte(alphabet, valid[len(valid)-1])+1])
	admin := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"b1","exp":4000000000,"scope":"admin"}`))

	if _, err := v.Verify(valid); err != nil {
		t.Fatalf("verify the valid token: got error %v, want none", err)
	}
	for name, c := range map[string]struct {
		token string
		loose bool
	}{
		"empty":                    {"", false},
		"garbage":                  {"garbage", false},
		"two parts":                {parts[0] + "." + parts[1], false},
		"four parts":               {valid + ".x", false},
		"another secret":           {sign(hs256, []byte(strings.Repeat("x", 32)), good()), false},
		"claims exchanged":         {parts[0] + "." + admin + "." + parts[2], false},
		"no signature":             {parts[0] + "." + parts[1] + ".", false},
		"variant of the signature": {valid[:len(valid)-1] + variant, true},
		"none":                     {sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()), false},
		"none, with our signature": {strings.Split(sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()), ".")[0] + "." + parts[1] + "." + parts[2], false},
		"HS512":                    {sign(jwt.SigningMethodHS512, secret, good()), true},
		"HS384":                    {sign(jwt.SigningMethodHS384, secret, good()), true},
		"RS256":                    {sign(jwt.SigningMethodRS256, private, good()), false},
		"expired":                  {sign(hs256, secret, with("exp", noon.Unix())), false},
		"longer than Life":         {sign(hs256, secret, with("exp", noon.Add(DefaultLife+leeway+time.Second).Unix())), true},
		"no exp":                   {sign(hs256, secret, with("exp", nil)), true},
		"exp as text":              {sign(hs256, secret, with("exp", "tomorrow")), false},
		"exp beyond all":           {sign(hs256, secret, with("exp", 1e300)), false},
		"not yet":                  {sign(hs256, secret, with("nbf", noon.Add(leeway+time.Second).Unix())), false},
		"no sub":                   {sign(hs256, secret, with("sub", nil)), true},
		"empty sub":                {sign(hs256, secret, with("sub", "")), true},
		"long sub":                 {sign(hs256, secret, with("sub", strings.Repeat("b", 65))), true},
		"sub with a newline":       {sign(hs256, secret, with("sub", "b1\n")), true},
		"sub as a number":          {sign(hs256, secret, with("sub", 1)), true},
		"scope as a list":          {sign(hs256, secret, with("scope", []string{"admin"})), true},
		"critical header":          {sign(hs256, secret, good(), "crit"), true},
		"too long":                 {sign(hs256, secret, with("pad", strings.Repeat("x", maxToken))), true},
	} {
		for range 2 {
			if id, err := v.Verify(c.token); !errors.Is(err, ErrUnauthorized) || id != (Identity{}) {
				t.Errorf("token %s: got identity %+v, error %v, want ErrUnauthorized", name, id, err)
			}
		}
		_, err := loose.ParseWithClaims(c.token, jwt.MapClaims{}, func(*jwt.Token) (any, error) { return secret, nil })
		if (err == nil) != c.loose {
			t.Errorf("token %s, loose parser: got error %v, want it accepted: %v", name, err, c.loose)
		}
	}
	if n := v.cache.Len(); n != 1 {
		t.Errorf("cached tokens: got %d, want 1", n)
	}
}

func TestScopes(t *testing.T) {
	v, _ := verifier(t)
	for scope, admin := range map[string]bool{
		"": false, "admin": true, "read admin write": true, "administrator": false, "Admin": false, "read,admin": false,
		"admin\r": false, "read\tadmin": false, "admin\u00a0": false, "read  admin": true,
	} {
		c := jwt.MapClaims{"sub": "b1", "exp": noon.Add(time.Minute).Unix(), "scope": scope}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(secret)
		check.Must(t, err)
		if id, err := v.Verify(token); err != nil || id.Admin != admin {
			t.Errorf("token with the scope %q: got identity %+v, error %v, want admin %v", scope, id, err, admin)
		}
	}
}

func TestFromHeaderRefuses(t *testing.T) {
	v, _ := verifier(t)
	token, err := v.Sign("b1", false, time.Minute)
	check.Must(t, err)
	for _, header := range []string{"", " ", "Bearer", "Bearer ", "Bearer" + token, token, "Basic " + token, " Bearer " + token, "Bearer\t" + token, "Bearer " + token + " x"} {
		if _, err := v.FromHeader(header); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("header %q: got error %v, want ErrUnauthorized", header, err)
		}
	}
}

func FuzzFromHeader(f *testing.F) {
	v, _ := verifier(f)
	token, err := v.Sign("b1", true, time.Minute)
	check.Must(f, err)
	parts := strings.Split(token, ".")
	for _, seed := range []string{"", "Bearer " + token, "bearer x.y.z", "Bearer " + parts[0] + ".e30." + parts[2], "Bearer ..", token[:40]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		id, err := v.FromHeader(header)
		switch {
		case err == nil:
			// The fuzzer cannot forge a signature, so only the seed's token can pass.
			if !strings.HasSuffix(strings.TrimRight(header, " "), token) || id.Buyer != "b1" || !id.Admin {
				t.Fatalf("header %q: got identity %+v, want operator b1 of the token", header, id)
			}
		case !errors.Is(err, ErrUnauthorized) || id != (Identity{}):
			t.Fatalf("header %q: got identity %+v, error %v, want ErrUnauthorized", header, id, err)
		}
	})
}
