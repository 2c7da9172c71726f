package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"flashsale/orders"
	"flashsale/orders/store"
)

const (
	maxChanges = 40        // changes per page
	maxBody    = 20_000    // bytes of a page with several changes, as Standard Webhooks recommends
	maxAnswer  = 4 << 10   // bytes of an answer that are read
	maxError   = 300       // bytes of Webhook.LastError
	maxPause   = time.Hour // longest Retry-After that is honored
)

// pauses are the times from a failed attempt to the next one. The last one is repeated.
var pauses = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}

// An Endpoint is the receiver of a webhook.
type Endpoint struct{ Name, URL string }

// ParseEndpoint parses NAME=URL. The URL must be an https URL, unless plain is true.
func ParseEndpoint(text string, plain bool) (e Endpoint, err error) {
	e.Name, e.URL, _ = strings.Cut(text, "=")
	u, err := url.Parse(e.URL)
	switch {
	case !orders.IsSKU(e.Name):
		return e, errors.New("want NAME=URL with a name of 1 to 64 characters of A-Z a-z 0-9 . _ -")
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return e, fmt.Errorf("%s: want a URL with a host, without a user and without a fragment", e.Name)
	case u.Scheme != "https" && !plain:
		return e, fmt.Errorf("%s: want an https URL; only a demo may use http", e.Name)
	}
	return e, nil
}

// Secret returns the secret with which the receiver of a webhook verifies signatures, in the form
// of Standard Webhooks. It is derived from the service's secret.
func Secret(service []byte, name string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(key(service, name))
}

// key derives the key of a webhook. No token has the signature of a text with a space.
func key(service []byte, name string) []byte {
	mac := hmac.New(sha256.New, service)
	mac.Write([]byte("flashsale webhook " + name))
	return mac.Sum(nil)
}

// A page is a request to an endpoint.
type page struct {
	changes []store.Change
	next    string // cursor after the changes
	body    []byte
}

// at returns the time at which a change got its number. A number is a time in milliseconds.
func at(c store.Change) time.Time { return time.UnixMilli(c.No).UTC() }

// read reads the next page. If the changes take too many bytes, it reads fewer. The same changes
// after the same cursor make the same page, on any node.
func (h *hook) read(ctx context.Context, after string, limit int, wait time.Duration) (p page, err error) {
	for ; ; limit /= 2 {
		if p.changes, p.next, err = h.Read(ctx, after, limit, wait); err != nil || len(p.changes) == 0 {
			return p, err
		}
		type data struct {
			Changes []store.Change `json:"changes"`
			Next    string         `json:"next"`
		}
		p.body, err = json.Marshal(struct {
			Type      string    `json:"type"`
			Timestamp time.Time `json:"timestamp"`
			Data      data      `json:"data"`
		}{"changes", at(p.changes[len(p.changes)-1]), data{p.changes, p.next}})
		if err != nil || len(p.body) < maxBody || limit == 1 {
			return p, err
		}
		wait = 0
	}
}

// messageID names the changes between two cursors of a webhook, so a repeated attempt has the same
// id. A cursor may contain a full stop, which an id must not.
func messageID(name, after, next string) string {
	sum := sha256.Sum256([]byte(name + " " + after + " " + next))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// A sender sends pages to one endpoint.
type sender struct {
	Endpoint
	keys   [][]byte
	clock  func() time.Time
	client *http.Client
}

// newSender returns a sender that follows no redirect and does not unpack answers. The caller limits
// the time of a request.
func newSender(e Endpoint, secrets [][]byte, clock func() time.Time) *sender {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = 5*time.Second, 15*time.Second
	t.DisableCompression, t.MaxResponseHeaderBytes = true, 16<<10
	s := &sender{Endpoint: e, clock: clock, client: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, secret := range secrets {
		s.keys = append(s.keys, key(secret, e.Name))
	}
	return s
}

// A failure is the outcome of an attempt that was not answered with a 2xx.
type failure struct {
	text  string        // ASCII, up to maxError bytes
	gone  bool          // 410: the endpoint wants no more
	after time.Duration // Retry-After, or 0
}

// send sends a page once. It returns nil if the endpoint has answered with a 2xx.
func (s *sender) send(ctx context.Context, id string, body []byte) *failure {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return &failure{text: printable(err.Error())}
	}
	sentAt := strconv.FormatInt(s.clock().Unix(), 10)
	var signatures []string
	for _, key := range s.keys {
		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, sentAt, body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "flashsale",
		"Webhook-Id": id, "Webhook-Timestamp": sentAt, "Webhook-Signature": strings.Join(signatures, " "),
	} {
		req.Header.Set(name, value)
	}
	res, err := s.client.Do(req)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err // without the URL, which may contain a secret of the endpoint
		}
		return &failure{text: printable(err.Error())}
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // to its end, so that the connection can be used again
	if res.StatusCode/100 == 2 {
		return nil
	}
	f := &failure{gone: res.StatusCode == http.StatusGone}
	f.text = printable(fmt.Sprintf("the endpoint answered %d %s: %s", res.StatusCode, http.StatusText(res.StatusCode), answer))
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		f.after = time.Duration(min(seconds, int(maxPause.Seconds()))) * time.Second
	} else if t, err := http.ParseTime(res.Header.Get("Retry-After")); err == nil {
		f.after = t.Sub(s.clock())
	}
	return f
}

// pause returns the time until the next attempt after so many failures: what the endpoint has asked
// for, within bounds, or else the next of pauses, up to an eighth shorter or longer.
func (f *failure) pause(failures int64) time.Duration {
	if f.after > 0 {
		return min(max(f.after, pauses[0]), maxPause)
	}
	d := pauses[min(failures, int64(len(pauses)))-1]
	return d - d/8 + rand.N(d/4)
}

// printable returns the beginning of a text, with spaces instead of what is not visible ASCII.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text[:min(len(text), maxError)]))
}
