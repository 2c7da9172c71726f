package web

import (
	"errors"
	"net/http"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/node/live"
	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/httpapi"
)

var (
	errNotFound   = errors.New("web: no such route")
	errMethod     = errors.New("web: method not allowed")
	errForbidden  = errors.New("web: the token lacks a scope")
	errHost       = errors.New("web: demo token requested under a host name")
	errNotReady   = errors.New("web: the node is not ready")
	errUnexpected = errors.New("web: panic")

	// ErrCrowdRunning is returned by Crowd.Start if there is a crowd already.
	ErrCrowdRunning = errors.New("web: a demo crowd is already running")
)

// failures maps errors to responses. The first row whose error is in the chain counts.
// Two errors are not in the table because their responses have more fields:
// *orders.InvalidError (400 invalid_request) and *admission.LimitedError (429
// rate_limited). All other errors are failures of a store: 503 unavailable.
var failures = []struct {
	err    error
	status int
	code   string
	detail string
}{
	{inventory.ErrSoldOut, 409, "sold_out", "Fewer units are left than asked for."},
	{inventory.ErrBuyerLimit, 409, "buyer_limit", "You would hold more units than this sale allows one buyer."},
	{inventory.ErrNotOpen, 409, "not_open", "The sale has not opened yet."},
	{inventory.ErrClosed, 409, "closed", "The sale is over."},
	{inventory.ErrMismatch, 422, "idempotency_mismatch", "This Idempotency-Key was used with another body."},
	{orders.ErrAlreadyPaid, 409, "already_paid", "The order is paid."},
	{orders.ErrOrderClosed, 409, "order_closed", "The order is cancelled, expired or rejected."},
	{orders.ErrInProgress, 409, "in_progress", "The order is not durable yet. Try again in a moment."},
	{ErrCrowdRunning, 409, "in_progress", "A crowd is here already."},
	{orders.ErrBelowSold, 409, "below_sold", "The total would be less than what is sold already."},
	{orders.ErrPrecondition, 412, "precondition_failed", "If-Match does not have the ETag of the sale: the sale was changed meanwhile, or does not exist. Read it again."},
	{orders.ErrNotFound, 404, "not_found", "There is no such thing, or it is not yours."},
	{httpapi.ErrMediaType, 415, "unsupported_media_type", "The body must be application/json in UTF-8."},
	{auth.ErrUnauthorized, 401, "unauthorized", "A valid bearer token is needed."},
	{errForbidden, 403, "forbidden", "The token lacks the scope that this needs."},
	{errHost, 403, "forbidden", "A demo gives tokens at localhost or an IP address only."},
	{errNotFound, 404, "not_found", "There is no such route."},
	{errMethod, 405, "method_not_allowed", "This route does not know the method."},
	{inventory.ErrInvalid, 400, "invalid_request", "The request is malformed."},
	{errUnexpected, 500, "internal", "Something unexpected happened. It has been logged."},
	{orders.ErrOnItsWay, 503, "unavailable", "The change is stored, and on its way to the gate. Read the sale before you repeat it."},
	{live.ErrFull, 503, "unavailable", "Too many are watching this node just now."},
	{live.ErrEnded, 503, "unavailable", "This node is stopping."},
	{errNotReady, 503, "unavailable", "This node is starting or stopping. Nothing was sold."},
	{inventory.ErrBusy, 503, "unavailable", "Too many orders are waiting. Nothing was sold."},
	{inventory.ErrRebuilding, 503, "unavailable", "The sale is being brought up to date. Nothing was sold."},
	{inventory.ErrStale, 503, "unavailable", "The sale is being brought up to date. Nothing was sold."},
	{inventory.ErrNoGate, 503, "unavailable", "The sale is being brought up to date. Nothing was sold."},
}

const unavailable = "A dependency is not available. Nothing was sold, or the order is found under its key on retry."

// A problem is a response body of type application/problem+json (RFC 9457).
type problem struct {
	Type   string  `json:"type"`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Code   string  `json:"code"`
	Detail string  `json:"detail,omitempty"`
	Errors []field `json:"errors,omitempty"`
}

// A field describes an invalid field of a request.
type field struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func newProblem(status int, code, detail string) problem {
	return problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}
