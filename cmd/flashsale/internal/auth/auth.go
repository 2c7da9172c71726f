// Package auth says who is calling: it signs and verifies the JSON Web Tokens
// of buyers and operators. HS256 is the only algorithm (RFC 8725, section 3.1).
package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
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
	// maxBuyer bounds a buyer's name, in bytes.
	maxBuyer = 64

	scopeAdmin = "admin"
)

// Identity is who a token speaks for.
type Identity struct {
	Buyer string
	Admin bool
	// Expires is the end of the token: from then on it is nobody's.
	Expires time.Time
}

// claims are a token's: sub, exp and scope count; nbf does if it is there.
type claims struct {
	jwt.RegisteredClaims
	Scope string `json:"scope,omitempty"` // a list, separated by spaces (RFC 8693, section 4.2)
}

// Verifier signs and verifies tokens with one secret, and remembers up to
// 65,536 verified ones, so that a buyer who comes again costs a look-up
// instead of a parse. It is safe for concurrent use.
type Verifier struct {
	secret []byte
	clock  func() time.Time
	parser *jwt.Parser
	cache  *cache
}

// New returns a verifier. The secret has at least 32 bytes; clock is the time
// that expiry is judged by, time.Now if nil.
func New(secret []byte, clock func() time.Time) (*Verifier, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("auth: the token secret has %d bytes and needs at least %d: "+
			"set --secret or FLASHSALE_SECRET to a random one, for example from `openssl rand -base64 48`", len(secret), minSecret)
	}
	if clock == nil {
		clock = time.Now
	}
	return &Verifier{
		secret: append([]byte(nil), secret...),
		clock:  clock,
		parser: jwt.NewParser(
			// Without this a token could choose how it wants to be verified.
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithExpirationRequired(),
			jwt.WithTimeFunc(clock),
			// One token, one text: else a valid one would have variants, each
			// with a place of its own in the cache.
			jwt.WithStrictDecoding(),
		),
		cache: newCache(cacheEntries),
	}, nil
}

// Verify tells who the token speaks for. Errors wrap ErrUnauthorized.
func (v *Verifier) Verify(token string) (Identity, error) {
	if len(token) > maxToken {
		return Identity{}, fmt.Errorf("%w: the token has %d bytes, more than %d", ErrUnauthorized, len(token), maxToken)
	}
	if id, known := v.cache.get(token, v.clock()); known {
		return id, nil
	}
	id, err := v.parse(token)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	// Only here, after the signature was found right: garbage never gets in.
	v.cache.put(token, id, v.clock())
	return id, nil
}

func (v *Verifier) parse(token string) (Identity, error) {
	var c claims
	parsed, err := v.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return v.secret, nil })
	if err != nil {
		return Identity{}, err
	}
	if _, asks := parsed.Header["crit"]; asks {
		return Identity{}, errors.New("the token has a critical header, and none is understood") // RFC 7515, section 4.1.11
	}
	if err := checkBuyer(c.Subject); err != nil {
		return Identity{}, err
	}
	id := Identity{Buyer: c.Subject, Expires: c.ExpiresAt.Time}
	for _, scope := range strings.Fields(c.Scope) {
		id.Admin = id.Admin || scope == scopeAdmin
	}
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
// a token may end up to a second early.
func (v *Verifier) Sign(buyer string, admin bool, ttl time.Duration) (string, error) {
	if err := checkBuyer(buyer); err != nil {
		return "", fmt.Errorf("auth: signing a token: %w", err)
	}
	if ttl < time.Second {
		return "", fmt.Errorf("auth: signing a token: its time %v is below 1s", ttl)
	}
	c := claims{RegisteredClaims: jwt.RegisteredClaims{Subject: buyer, ExpiresAt: jwt.NewNumericDate(v.clock().Add(ttl))}}
	if admin {
		c.Scope = scopeAdmin
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(v.secret)
	if err != nil {
		return "", fmt.Errorf("auth: signing a token: %w", err)
	}
	return token, nil
}

// checkBuyer holds the subject to 1–64 of [A-Za-z0-9._:-]: it stands in keys
// and rows.
func checkBuyer(buyer string) error {
	if buyer == "" || len(buyer) > maxBuyer {
		return fmt.Errorf("the subject has %d bytes, not 1 to %d", len(buyer), maxBuyer)
	}
	for i := range len(buyer) {
		c := buyer[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("._:-", c) >= 0:
		default:
			return errors.New("the subject has a character other than A-Z a-z 0-9 . _ : -")
		}
	}
	return nil
}
