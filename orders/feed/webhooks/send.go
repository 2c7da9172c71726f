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
	maxBody    = 20_000    // bytes of a page, as Standard Webhooks recommends; a single change may be larger
	maxAnswer  = 4 << 10   // bytes of an answer that are read
	maxError   = 300       // bytes of Webhook.LastError
	maxPause   = time.Hour // longest Retry-After that is honored
)

// pauses are the times from a failed attempt to the next one. The last one is repeated.
var pauses = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}

// Check returns an error if a webhook cannot have this name or URL. Only if plain is true, the URL
// may be an http URL.
func Check(name, link string, plain bool) error {
	u, err := url.Parse(link)
	if err != nil || !orders.IsSKU(name) || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !plain) {
		return errors.New("want NAME=URL: a name of 1 to 64 characters of A-Z a-z 0-9 . _ -, and an https URL without a user and without a fragment (a demo may use http)")
	}
	return nil
}

// Secret returns the secret with which the receiver of a webhook verifies signatures, in the form
// of Standard Webhooks. It is derived from the service's secret.
func Secret(service []byte, name string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(key(service, name))
}

// key derives the key of a webhook. The space separates these keys from the signatures of tokens,
// which use the same secret, because the signed text of a token has no space.
func key(service []byte, name string) []byte { return sum(service, "flashsale webhook "+name) }

func sum(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
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
	for ; ; limit, wait = limit/2, 0 {
		if p.changes, p.next, err = h.Read(ctx, after, limit, wait); err != nil || len(p.changes) == 0 {
			return p, err
		}
		p.body, err = json.Marshal(map[string]any{
			"type": "changes", "timestamp": at(p.changes[len(p.changes)-1]),
			"data": map[string]any{"changes": p.changes, "next": p.next},
		})
		if err != nil || len(p.body) < maxBody || limit == 1 {
			return p, err
		}
	}
}

// messageID names the changes between two cursors of a webhook, so a repeated attempt has the same
// id.
func messageID(name, after, next string) string {
	sum := sha256.Sum256([]byte(name + " " + after + " " + next))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// newClient returns a client that follows no redirect and does not unpack answers. The context of a
// request limits its time.
func newClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = 5*time.Second, 15*time.Second
	t.DisableCompression, t.MaxResponseHeaderBytes = true, 16<<10
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// send sends a page once. It returns an error if the endpoint has not answered with a 2xx.
func (h *hook) send(ctx context.Context, id string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URLs[h.name], bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	now := h.Clock().Unix()
	signatures := make([]string, len(h.keys))
	for i, key := range h.keys {
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(sum(key, fmt.Sprintf("%s.%d.%s", id, now, body)))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "flashsale")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now, 10))
	req.Header.Set("Webhook-Signature", strings.Join(signatures, " "))
	res, err := h.client.Do(req)
	if err != nil {
		return nil, errors.Unwrap(err) // without the URL, which may contain a secret of the endpoint
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // so that the connection can be used again
	if res.StatusCode/100 != 2 {
		err = fmt.Errorf("the endpoint answered %d %s: %.200q", res.StatusCode, http.StatusText(res.StatusCode), answer)
	}
	return res, err
}

// pauseAfter returns the time until the next attempt after a number of failures in a row. It is the
// Retry-After of the response, within bounds. Without a Retry-After it is one of pauses, up to an
// eighth shorter or longer, so that the webhooks of one endpoint do not all retry at once.
func pauseAfter(failures int64, res *http.Response, now time.Time) time.Duration {
	var asked time.Duration
	if res != nil {
		header := res.Header.Get("Retry-After")
		if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
			asked = time.Duration(seconds) * time.Second
		} else if t, err := http.ParseTime(header); err == nil {
			asked = t.Sub(now)
		}
	}
	if asked > 0 {
		return min(max(asked, pauses[0]), maxPause)
	}
	d := pauses[min(failures, int64(len(pauses)))-1]
	return d - d/8 + rand.N(d/4)
}
