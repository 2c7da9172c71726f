// Package auth says who is calling: it signs and verifies the JSON Web Tokens
// of buyers and operators. HS256 is the only algorithm (RFC 8725, section 3.1).
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

// ErrUnauthorized is wrapped by every refusal. What it is wrapped with says
// why and is for logs; it never holds the token.
var ErrUnauthorized = errors.New("auth: unauthorized")

// ErrSignature is wrapped where the token is well formed and its signature is
// wrong: a forgery, or a token of a node that has another secret.
var ErrSignature = jwt.ErrTokenSignatureInvalid

const (
	// minSecret is HS256's output size: a shorter key is weaker than the
	// signature (RFC 7518, section 3.2).
	minSecret = 32
	// maxToken bounds what is parsed, in bytes. Ours have about 150.
	maxToken = 4096
	// maxCached bounds the tokens remembered: some 25 MB when full. Where there is
	// no room, the one that was unused for longest goes: it costs its owner a parse.
	maxCached = 65_536

	// ScopeAdmin is an operator's.
	ScopeAdmin = "admin"

	// DefaultName is whom tokens are from and for, where they name somebody.
	DefaultName = "flashsale"
	// DefaultLife is how far ahead a token may end: 31 days.
	DefaultLife = 31 * 24 * time.Hour
	// demo is added to the issuer's name in the tokens of a demo.
	demo = "-demo"
)

// Identity is who a token speaks for.
type Identity struct {
	Buyer string
	Admin bool
	Scope string // all of the token's scopes, separated by spaces
	// Expires is the end of the token: from then on it is nobody's.
	Expires time.Time
}

// Has tells whether the token has this scope.
func (id Identity) Has(scope string) bool { return slices.Contains(strings.Fields(id.Scope), scope) }

// Config of a Verifier. Only Secret is required.
type Config struct {
	Secret   []byte // signs and verifies, 32 bytes or more
	Previous []byte // verifies as well, for a change of the secret; nil for none
	// Issuer and Audience are whom a token must name where it names any. Default
	// DefaultName.
	Issuer, Audience string
	// Life is how far ahead a token may end. Default DefaultLife.
	Life time.Duration
	// Demo accepts what SignDemo has signed.
	Demo  bool
	Clock func() time.Time // that expiry is judged by. Default time.Now
}

// Verifier signs and verifies tokens, and remembers up to 65,536 verified ones,
// so that a buyer who comes again costs a look-up instead of a parse. It is safe
// for concurrent use.
type Verifier struct {
	cfg    Config
	keys   jwt.VerificationKeySet
	parser *jwt.Parser
	cache  *lru.Cache[string, Identity] // by a token's full text, signature included
}

// New returns a verifier. Error: a secret is too short.
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
			// Without this a token could choose how it wants to be verified.
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithExpirationRequired(),
			jwt.WithTimeFunc(c.Clock),
			// One token, one text: else a valid one would have variants, each
			// with a place of its own in the cache.
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
		v.keys.Keys = append(v.keys.Keys, secret)
	}
	return v, nil
}

// Verify tells who the token speaks for. Errors wrap ErrUnauthorized.
func (v *Verifier) Verify(token string) (Identity, error) {
	if len(token) > maxToken {
		return Identity{}, fmt.Errorf("%w: the token has %d bytes, more than %d", ErrUnauthorized, len(token), maxToken)
	}
	id, known := v.cache.Get(token)
	if known && v.cfg.Clock().Before(id.Expires) {
		return id, nil
	}
	id, err := v.parse(token)
	if err != nil {
		v.cache.Remove(token) // it has expired, if it was there
		return Identity{}, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	// Only here, after the signature was found right: garbage never gets in.
	// The token is part of a longer header, which must not be kept with it.
	v.cache.Add(strings.Clone(token), id)
	return id, nil
}

func (v *Verifier) parse(token string) (Identity, error) {
	// A map has claims by their exact names. A struct would take "SUB" for "sub",
	// which whoever else reads the token would not.
	c := jwt.MapClaims{}
	parsed, err := v.parser.ParseWithClaims(token, c, func(*jwt.Token) (any, error) { return v.keys, nil })
	if err != nil {
		return Identity{}, err
	}
	if _, asks := parsed.Header["crit"]; asks {
		return Identity{}, errors.New("the token has a critical header, and none is understood") // RFC 7515, section 4.1.11
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
		return Identity{}, errors.New("the token's scope is no text")
	case c["iss"] != nil && issuer != v.cfg.Issuer && !(v.cfg.Demo && issuer == v.cfg.Issuer+demo):
		return Identity{}, errors.New("the token is from another issuer")
	case c["aud"] != nil && !slices.Contains(audience, v.cfg.Audience):
		return Identity{}, errors.New("the token is for another audience")
	case expires.After(v.cfg.Clock().Add(v.cfg.Life)):
		return Identity{}, fmt.Errorf("the token ends more than %v from now", v.cfg.Life)
	}
	id := Identity{Buyer: buyer, Scope: scope, Expires: expires.Time}
	id.Admin = id.Has(ScopeAdmin)
	return id, nil
}

// FromHeader verifies the token of an Authorization header's value. The scheme
// is Bearer in any case (RFC 9110, section 11.1). Errors wrap ErrUnauthorized.
func (v *Verifier) FromHeader(authorization string) (Identity, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Identity{}, fmt.Errorf("%w: no bearer token", ErrUnauthorized)
	}
	return v.Verify(token)
}

// Sign returns a token for a buyer, and with admin set for an operator, that
// is good for ttl. Tokens count in whole seconds, so ttl is at least one, and
// a token may end up to a second early. It names no issuer and no audience, so
// every node with the secret accepts it.
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

// SignDemo is SignScope for whoever asks, for ttl at most: only a demo accepts
// the token, so it ends with the demo, whatever becomes of the secret.
func (v *Verifier) SignDemo(buyer, scope string, ttl time.Duration) (string, error) {
	return v.sign(jwt.MapClaims{"scope": scope, "iss": v.cfg.Issuer + demo}, buyer, min(ttl, v.cfg.Life))
}

func (v *Verifier) sign(c jwt.MapClaims, buyer string, ttl time.Duration) (string, error) {
	if err := checkBuyer(buyer); err != nil {
		return "", fmt.Errorf("auth: signing a token: %w", err)
	}
	if ttl < time.Second || ttl > v.cfg.Life {
		return "", fmt.Errorf("auth: signing a token: its time %v is not 1s to %v", ttl, v.cfg.Life)
	}
	c["sub"], c["exp"] = buyer, v.cfg.Clock().Add(ttl).Unix()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(v.cfg.Secret)
	if err != nil {
		return "", fmt.Errorf("auth: signing a token: %w", err)
	}
	return token, nil
}

// checkBuyer holds the subject to what may stand in keys and rows.
func checkBuyer(buyer string) error {
	if !orders.IsBuyer(buyer) {
		return fmt.Errorf("the subject has %d bytes, and needs 1 to 64 of A-Z a-z 0-9 . _ : -", len(buyer))
	}
	return nil
}
