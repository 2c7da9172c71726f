package web

import (
	"errors"
	"net/http"

	"flashsale/cmd/flashsale/internal/node/auth"
	"flashsale/cmd/flashsale/internal/node/live"
	"flashsale/inventory"
	"flashsale/orders"
	"flashsale/orders/httpapi"
	"flashsale/ratelimit"
)

var (
	errNotFound   = errors.New("web: the URL matches no route")
	errMethod     = errors.New("web: the route does not allow the method")
	errForbidden  = errors.New("web: the token lacks the scope that the route needs")
	errHost       = errors.New("web: a demo token was requested under a host name, which only localhost and IP addresses may")
	errNotStarted = errors.New("web: the node has not started")
	errUnexpected = errors.New("web: a request handler panicked")

	// ErrCrowdRunning is returned by Crowd.Start while a crowd leaves, and if the node stops.
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
	{inventory.ErrSoldOut, 409, "sold_out", "Fewer units are left than the order asks for."},
	{orders.ErrOrderLimit, 409, "buyer_limit", "The buyer has made as many orders of this sale as one buyer may make, cancelled orders included."},
	{inventory.ErrBuyerLimit, 409, "buyer_limit", "The buyer would have more units of this sale than one buyer may have."},
	{inventory.ErrNotOpen, 409, "not_open", "The sale has not opened yet."},
	{inventory.ErrClosed, 409, "closed", "The sale is over."},
	{inventory.ErrMismatch, 422, "idempotency_mismatch", "This Idempotency-Key was used with another body."},
	{orders.ErrAlreadyPaid, 409, "already_paid", "The order is already paid."},
	{orders.ErrClaimed, 409, "order_closed", "The order is cancelled, expired or rejected. The payment is refused, and a refund claim is recorded for it."},
	{orders.ErrOrderClosed, 409, "order_closed", "The order is cancelled, expired or rejected."},
	{orders.ErrAmountMismatch, 409, "amount_mismatch", "The payment is for another amount or currency than the order. It is refused, and a refund claim is recorded unless this payment has already paid the order or the order has ten claims."},
	{orders.ErrInProgress, 409, "in_progress", "The order is not durable yet. Try again in a moment."},
	{ErrCrowdRunning, 409, "in_progress", "A demo crowd is already running."},
	{orders.ErrBelowSold, 409, "below_sold", "The total would be lower than the number of units sold."},
	{orders.ErrPrecondition, 412, "precondition_failed", "The sale is not as If-Match or If-None-Match requires: another operator has changed or created it, or it does not exist. Read it again, and send its version in quotes."},
	{orders.ErrNotFound, 404, "not_found", "The sale or order does not exist, or it belongs to another buyer."},
	{httpapi.ErrNoFeed, 404, "not_found", "This node has no feed of changes. Start all nodes with --changes."},
	{httpapi.ErrMediaType, 415, "unsupported_media_type", "The body must be application/json in UTF-8, without a Content-Encoding."},
	{auth.ErrUnauthorized, 401, "unauthorized", "A valid bearer token is needed."},
	{errForbidden, 403, "forbidden", "The token lacks the scope that this route needs."},
	{errHost, 403, "forbidden", "Demo tokens are given only at localhost or at an IP address."},
	{errNotFound, 404, "not_found", "No route has this path."},
	{errMethod, 405, "method_not_allowed", "This route does not allow this method."},
	{inventory.ErrInvalid, 400, "invalid_request", "The request is malformed."},
	{ratelimit.ErrBadRequest, 400, "invalid_request", "The request is malformed."},
	{errUnexpected, 500, "internal", "The server failed unexpectedly. The error has been logged."},
	{orders.ErrOnItsWay, 503, "unavailable", "The change is stored, but may not be effective yet. Read the sale before you repeat the change."},
	{live.ErrFull, 503, "unavailable", "This node has too many live streams. Try again later."},
	{live.ErrEnded, 503, "unavailable", "This node is stopping."},
	{errNotStarted, 503, "unavailable", "This node is starting. Nothing was sold."},
	{inventory.ErrBusy, 503, "unavailable", "Too many orders are waiting in the queue. Nothing was sold."},
	{inventory.ErrRebuilding, 503, "unavailable", "The sale is being rebuilt. Nothing was sold."},
	{inventory.ErrStale, 503, "unavailable", "The sale is being rebuilt. Nothing was sold."},
	{inventory.ErrNoGate, 503, "unavailable", "The sale is being rebuilt. Nothing was sold."},
}

const unavailable = "A dependency is not available. The request may have taken effect: repeat it, and an order under the same Idempotency-Key."

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
