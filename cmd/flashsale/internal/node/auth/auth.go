// Package auth signs and verifies the JSON Web Tokens of buyers and operators. It
// accepts only the algorithm HS256 (RFC 8725, section 3.1).
package auth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"flashsale/orders"
)

// ErrUnauthorized is wrapped by every error of Verify. The wrapping error has the
// reason, for logs. It never contains the token.
var ErrUnauthorized = errors.New("auth: unauthorized")

// ErrSignature is also wrapped if the token is well-formed but its signature is wrong:
// the token was forged, or signed by a node with another secret.
var ErrSignature = jwt.ErrTokenSignatureInvalid

const (
	// minSecret is the output size of HS256 in bytes. A shorter key is weaker than the
	// signature (RFC 7518, section 3.2).
	minSecret = 32
	// maxToken bounds the length of a token in bytes. Signed tokens have about 150.
	maxToken = 4096
	// maxCached bounds the cache of verified tokens, which then takes about 25 MB. A full
	// cache evicts the least recently used token. Its next request costs a parse.
	maxCached = 65_536
	// leeway bounds the time by which the clock of a token's issuer may be ahead.
	leeway = time.Minute
	// minDistinct is the minimum number of distinct bytes in a secret. A random secret has more.
	minDistinct = 5

	// ScopeAdmin is the scope of operators.
	ScopeAdmin = "admin"
	// ScopeChanges is the scope of the consumers that read the feed of changes.
	ScopeChanges = "changes"

	// DefaultName is the default issuer and audience.
	DefaultName = "flashsale"
	// DefaultLife is the default of Config.Life: 31 days.
	DefaultLife = 31 * 24 * time.Hour
	// demo is the suffix of the issuer in the tokens of a demo.
	demo = "-demo"
)

// Identity describes the caller of a verified token.
type Identity struct {
	Buyer   string
	Admin   bool
	Scope   string    // all scopes, separated by spaces
	Expires time.Time // the token is invalid from this time on
}

// Has reports whether the token has this scope.
func (id Identity) Has(scope string) bool {
	return slices.Contains(strings.Split(id.Scope, " "), scope)
}

// Config of a Verifier. Only Secret is required.
type Config struct {
	Secret   []byte // signs and verifies tokens; 32 bytes or more
	Previous []byte // also verifies tokens, during a change of the secret; nil for none
	// Issuer and Audience must match the token, unless the token has none. The default
	// is DefaultName.
	Issuer, Audience string
	// Life is the longest time until a token may expire, plus a minute of leeway. The default is DefaultLife.
	Life time.Duration
	// Demo accepts the tokens of SignDemo.
	Demo  bool
	Clock func() time.Time // the default is time.Now
}

// Verifier signs and verifies tokens. It caches up to 65,536 verified tokens, so a
// repeated token costs a look-up instead of a parse. It is safe for concurrent use.
type Verifier struct {
	cfg    Config
	keys   jwt.VerificationKeySet
	parser *jwt.Parser
	cache  *lru.Cache[string, Identity] // by the whole token, including its signature
}

// New returns a Verifier. It returns an error if a secret is too short, or has too few
// different bytes.
func New(c Config) (*Verifier, error) {
	c.Issuer, c.Audience = cmp.Or(c.Issuer, DefaultName), cmp.Or(c.Audience, DefaultName)
	c.Life = cmp.Or(c.Life, DefaultLife)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	cache, err := lru.New[string, Identity](maxCached)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	v := &Verifier{
		cfg: c, cache: cache,
		parser: jwt.NewParser(
			// Otherwise the token's header would choose the algorithm.
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithExpirationRequired(),
			jwt.WithTimeFunc(c.Clock),
			jwt.WithLeeway(leeway), // also applies to exp, which parse therefore checks again
			// Otherwise a valid token would have several spellings, each with an entry
			// in the cache.
			jwt.WithStrictDecoding(),
		),
	}
	for i, secret := range [][]byte{c.Secret, c.Previous} {
		if i > 0 && len(secret) == 0 {
			continue
		}
		if len(secret) < minSecret {
			return nil, fmt.Errorf("auth: the token secret has %d bytes and needs at least %d: "+
				"set --secret or FLASHSALE_SECRET to a random one, for example from `openssl rand -base64 48`", len(secret), minSecret)
		}
		if distinct := slices.Sorted(slices.Values(secret)); len(slices.Compact(distinct)) < minDistinct {
			return nil, errors.New("auth: the token secret repeats a few characters: set --secret or FLASHSALE_SECRET to a random one")
		}
		v.keys.Keys = append(v.keys.Keys, secret)
	}
	return v, nil
}

// Verify returns the identity of a token. Errors wrap ErrUnauthorized.
func (v *Verifier) Verify(token string) (Identity, error) {
	if len(token) > maxToken {
		return Identity{}, fmt.Errorf("%w: the token has %d bytes, want at most %d", ErrUnauthorized, len(token), maxToken)
	}
	id, known := v.cache.Get(token)
	if known && v.cfg.Clock().Before(id.Expires) {
		return id, nil
	}
	id, err := v.parse(token)
	if err != nil {
		v.cache.Remove(token) // a cached token has expired
		return Identity{}, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	// Only tokens with a valid signature enter the cache. Clone, because the token is a
	// substring of the header, which would stay in memory.
	v.cache.Add(strings.Clone(token), id)
	return id, nil
}

func (v *Verifier) parse(token string) (Identity, error) {
	// The names of claims in a map are exact. A struct would also accept "SUB" for "sub".
	c := jwt.MapClaims{}
	parsed, err := v.parser.ParseWithClaims(token, c, func(*jwt.Token) (any, error) { return v.keys, nil })
	if err != nil {
		return Identity{}, err
	}
	if _, found := parsed.Header["crit"]; found {
		return Identity{}, errors.New("the token has a critical header (crit), which is not supported") // RFC 7515, section 4.1.11
	}
	buyer, noSubject := c.GetSubject()
	issuer, noIssuer := c.GetIssuer()
	audience, noAudience := c.GetAudience()
	expires, noEnd := c.GetExpirationTime()
	scope, isText := c["scope"].(string) // a list, separated by spaces (RFC 8693, section 4.2)
	err = errors.Join(noSubject, noIssuer, noAudience, noEnd, checkBuyer(buyer))
	switch {
	case err != nil:
		return Identity{}, err
	case c["scope"] != nil && !isText:
		return Identity{}, errors.New("the token's scope is not a string")
	case c["iss"] != nil && issuer != v.cfg.Issuer && !(v.cfg.Demo && issuer == v.cfg.Issuer+demo):
		return Identity{}, errors.New("the token is from another issuer")
	case c["aud"] != nil && !slices.Contains(audience, v.cfg.Audience):
		return Identity{}, errors.New("the token is for another audience")
	case !v.cfg.Clock().Before(expires.Time):
		return Identity{}, errors.New("the token has expired")
	case expires.After(v.cfg.Clock().Add(v.cfg.Life + leeway)):
		return Identity{}, fmt.Errorf("the token expires more than %v from now (--token-life)", v.cfg.Life)
	}
	id := Identity{Buyer: buyer, Scope: scope, Expires: expires.Time}
	id.Admin = id.Has(ScopeAdmin)
	return id, nil
}

// FromHeader verifies the token in the value of an Authorization header. The scheme
// Bearer is case-insensitive (RFC 9110, section 11.1). Errors wrap ErrUnauthorized.
func (v *Verifier) FromHeader(authorization string) (Identity, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Identity{}, fmt.Errorf("%w: the Authorization header has no bearer token", ErrUnauthorized)
	}
	return v.Verify(token)
}

// Sign returns a token that is valid for ttl, which is 1s to Config.Life. If admin is
// true, the token has the scope ScopeAdmin. Expiry is in whole seconds, so the token may
// expire up to a second early. It has no issuer and no audience, so every node with the
// secret accepts it.
func (v *Verifier) Sign(buyer string, admin bool, ttl time.Duration) (string, error) {
	c := jwt.MapClaims{}
	if admin {
		c["scope"] = ScopeAdmin
	}
	return v.sign(c, buyer, ttl)
}

// SignScope is Sign with a list of scopes, separated by spaces.
func (v *Verifier) SignScope(buyer, scope string, ttl time.Duration) (string, error) {
	return v.sign(jwt.MapClaims{"scope": scope}, buyer, ttl)
}

// SignDemo is like SignScope, but only a Verifier with Config.Demo accepts the token. So
// the token is useless on a server that later runs with the same secret. If ttl is
// longer than Config.Life, SignDemo shortens it.
func (v *Verifier) SignDemo(buyer, scope string, ttl time.Duration) (string, error) {
	return v.sign(jwt.MapClaims{"scope": scope, "iss": v.cfg.Issuer + demo}, buyer, min(ttl, v.cfg.Life))
}

func (v *Verifier) sign(c jwt.MapClaims, buyer string, ttl time.Duration) (string, error) {
	if err := checkBuyer(buyer); err != nil {
		return "", fmt.Errorf("--buyer: %w", err)
	}
	if ttl < time.Second || ttl > v.cfg.Life {
		return "", fmt.Errorf("--ttl: the lifetime is %v, want 1s to %v (--token-life)", ttl, v.cfg.Life)
	}
	c["sub"], c["exp"] = buyer, v.cfg.Clock().Add(ttl).Unix()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(v.cfg.Secret)
	if err != nil {
		return "", fmt.Errorf("auth: sign a token: %w", err)
	}
	return token, nil
}

// checkBuyer returns an error if the subject cannot be part of a key or a row.
func checkBuyer(buyer string) error {
	if !orders.IsBuyer(buyer) {
		return fmt.Errorf("the subject has %d bytes, want 1 to 64 of A-Z a-z 0-9 . _ : -", len(buyer))
	}
	return nil
}
