// Package payments is an example to copy: the adapter between a payment provider and the shop. It
// uses the HTTP API only. Providers sign the body of a report. They repeat a report until they receive
// a 2xx, and reports may arrive twice or out of order. The shop expects a token instead.
package payments

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// A Provider is the payment provider's API. All its calls can be repeated.
type Provider interface {
	// Open reports whether the payment has been neither voided nor refunded.
	Open(ctx context.Context, ref string) (bool, error)
	// Capture charges the buyer of an authorized payment.
	Capture(ctx context.Context, ref string) error
	// Return voids an authorized payment, or refunds a captured one.
	Return(ctx context.Context, ref string) error
}

// A Callback is the handler that the provider calls. Only one process may serve it, because one
// report of a payment must not be refused and returned while another report pays the order.
type Callback struct {
	Secret   []byte // for the signature of the reports
	Shop     string // URL of the shop
	Token    func() (string, error)
	Client   *http.Client // with a timeout
	Provider Provider
	Log      *slog.Logger
	Now      func() time.Time

	mu sync.Mutex // held while a report is settled
}

// The headers of a report, and the maximum age of its signature.
const (
	TimestampHeader = "Provider-Timestamp" // seconds since 1970
	SignatureHeader = "Provider-Signature" // see Sign
	tolerance       = 5 * time.Minute
)

// Sign returns the signature of a body, HMAC-SHA256 over the timestamp, a dot and the body, in hex.
func Sign(secret []byte, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// ServeHTTP answers 204 if the provider must not repeat the report, 503 if it must, 401 without a
// valid signature, and 400 for a signed body that is not a report.
func (c *Callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	var p report
	if err == nil && !c.signed(r.Header, body) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if err == nil {
		p, err = parse(body)
	}
	if err != nil {
		c.Log.Error("payment callback: the provider's report is malformed", "error", err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := c.settle(r.Context(), p); err != nil {
		c.Log.Warn("payment callback: the report is not settled; the provider will repeat it", "order", p.Order, "ref", p.Ref, "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// signed reports whether the body has one signature, which is valid and not old. The signature
// covers the bytes as they were sent: a body that was decoded and encoded again has another one.
func (c *Callback) signed(h http.Header, body []byte) bool {
	at, signature := h.Values(TimestampHeader), h.Values(SignatureHeader)
	if len(at) != 1 || len(signature) != 1 {
		return false
	}
	seconds, err := strconv.ParseInt(at[0], 10, 64)
	age := c.Now().Sub(time.Unix(seconds, 0)).Abs()
	return err == nil && age <= tolerance && hmac.Equal([]byte(signature[0]), []byte(Sign(c.Secret, at[0], body)))
}

// A report is the body of a callback.
type report struct {
	Event    string `json:"event"` // authorized or captured; others are ignored
	Order    string `json:"order"`
	Ref      string `json:"payment_ref"`
	Amount   *int64 `json:"amount"` // in minor units
	Currency string `json:"currency"`
}

var (
	orderID  = regexp.MustCompile(`^[0-9a-f-]{36}$`)
	currency = regexp.MustCompile(`^[A-Z]{3}$`)
)

// parse decodes a report. Decoding into an integer rejects "100", 1e3 and 1.0.
func parse(body []byte) (p report, err error) {
	if err := json.Unmarshal(body, &p); err != nil {
		return p, err
	}
	if !orderID.MatchString(p.Order) || p.Ref == "" || p.Amount == nil || *p.Amount < 0 || !currency.MatchString(p.Currency) {
		return p, errors.New("a field is missing or invalid")
	}
	return p, nil
}

// settle brings the shop and the provider to the same result. After an error, it can be repeated.
func (c *Callback) settle(ctx context.Context, p report) error {
	if p.Event != "authorized" && p.Event != "captured" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A refused payment that was returned must not pay the order when its report is repeated.
	if open, err := c.Provider.Open(ctx, p.Ref); err != nil || !open {
		return err
	}
	result, err := c.pay(ctx, p)
	switch {
	case err != nil:
		return err
	case result == "paid" && p.Event == "authorized":
		return c.Provider.Capture(ctx, p.Ref)
	case result == "paid":
		return nil
	case claimed[result] && p.Event == "captured":
		return nil // the shop has recorded a refund claim, and the feed of changes reports it
	case claimed[result] || refused[result]:
		return c.Provider.Return(ctx, p.Ref)
	}
	return fmt.Errorf("pay the order: the shop answers %s", result)
}

var (
	claimed = map[string]bool{"order_closed": true, "amount_mismatch": true}
	refused = map[string]bool{"already_paid": true, "sold_out": true, "buyer_limit": true, "closed": true, "not_open": true} // no claim
)

// pay reports the payment to the shop. It returns "paid", or the code of a refusal.
func (c *Callback) pay(ctx context.Context, p report) (result string, err error) {
	body, err := json.Marshal(map[string]any{"payment_ref": p.Ref, "amount": p.Amount, "currency": p.Currency})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Shop+"/v1/orders/"+p.Order+"/pay", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	token, err := c.Token()
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	var problem struct{ Code string }
	switch answer.StatusCode {
	case http.StatusOK:
		return "paid", nil
	case http.StatusConflict:
		err := json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&problem)
		return problem.Code, err
	}
	return "", fmt.Errorf("pay the order: the shop answers %s", answer.Status)
}
