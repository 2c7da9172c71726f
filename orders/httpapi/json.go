package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"flashsale/inventory/coalesce"
	"flashsale/orders"
	"flashsale/orders/shop"
)

// ErrMediaType is returned for a body that is not JSON in UTF-8, or that is compressed.
var ErrMediaType = errors.New("orders: the body must be application/json in UTF-8, without a Content-Encoding")

// The maximum sizes of a request's body, in bytes.
const (
	maxBody     = 4 << 10
	maxVoidBody = 16 << 10 // a list of order ids
)

// Handlers serves the routes of the API that call the shop. Each handler writes its response,
// or returns an error and writes nothing. The caller turns the error into a response.
type Handlers struct {
	service *shop.Service
	// Buyer returns the buyer of an authenticated request.
	Buyer func(*gin.Context) string
	// PayForAnyBuyer lets PayOrder pay the orders of all buyers. It is for a payment service that
	// calls PayOrder once it has received the money.
	PayForAnyBuyer bool
	// Prefix returns the path prefix of the URLs in responses. By default there is none.
	Prefix func(*gin.Context) string

	offers coalesce.Fresh[offerBytes]
}

// New returns the handlers of s. buyer becomes Handlers.Buyer.
func New(s *shop.Service, buyer func(*gin.Context) string) *Handlers {
	h := &Handlers{service: s, Buyer: buyer, Prefix: func(*gin.Context) string { return "" }}
	h.offers = coalesce.Fresh[offerBytes]{Age: offerAge, Make: h.readOffers}
	return h
}

// MaxFaults is the maximum number of faults that the response to one request lists.
const MaxFaults = 10

// shownName is the maximum length of an unknown field's name in a response, in bytes.
const shownName = 64

// Decode decodes the JSON object in a request's body. into maps the name of each field to a pointer
// to a string, an int64, a time.Time, or a pointer to or slice of these. Every field must be given
// once and not be null; only the optional fields may be missing. Decode returns the fields that are
// wrong, at most MaxFaults, and an error if the body is not a JSON object in UTF-8 of at most 4
// KiB.
//
// encoding/json would ignore the case of names, and accept a name that is given twice.
func Decode(c *gin.Context, into map[string]any, optional ...string) (wrong orders.Fields, err error) {
	return decode(c, maxBody, into, optional...)
}

// decode is Decode for a body of at most limit bytes.
func decode(c *gin.Context, limit int64, into map[string]any, optional ...string) (wrong orders.Fields, err error) {
	if err := checkMedia(c.Request.Header); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	if err != nil {
		return nil, readError(err, limit)
	}
	in := jsontext.NewDecoder(bytes.NewBuffer(raw))
	if open, err := in.ReadToken(); err != nil || open.Kind() != '{' {
		return nil, errNotObject
	}
	seen := make([]string, 0, len(into))
	for in.PeekKind() != '}' {
		token, err := in.ReadToken()
		name := token.String()
		var value jsontext.Value
		if err == nil {
			value, err = in.ReadValue()
		}
		if twice, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(twice, jsontext.ErrDuplicateName) {
			name = twice.JSONPointer.LastToken()
			wrong.Check(false, name[:min(len(name), shownName)], "is given twice")
			return wrong, nil
		}
		if err != nil {
			return nil, errNotObject
		}
		target, known := into[name]
		switch {
		case !known:
			wrong.Check(false, name[:min(len(name), shownName)], "is not a field of this request, which has %s", strings.Join(slices.Sorted(maps.Keys(into)), ", "))
		case value.Kind() == 'n':
			wrong.Check(false, name, "must not be null")
		case read(value, target) != nil:
			wrong.Check(false, name, "must be %s", kindOf(target))
		}
		if len(wrong) == MaxFaults {
			return wrong, nil
		}
		seen = append(seen, name)
	}
	_, closing := in.ReadToken()
	if _, err := in.ReadToken(); closing != nil || !errors.Is(err, io.EOF) {
		return nil, errNotObject
	}
	for name := range into {
		wrong.Check(slices.Contains(seen, name) || slices.Contains(optional, name), name, "is missing")
	}
	return wrong, nil
}

var errNotObject = invalid("body", "must be a JSON object in UTF-8")

// read is json.Unmarshal without reflection for the two fields of an order.
func read(value jsontext.Value, into any) (err error) {
	switch into := into.(type) {
	case *int64:
		*into, err = strconv.ParseInt(string(value), 10, 64)
		return err
	case *string:
		text, err := jsontext.AppendUnquote(nil, value)
		*into = string(text)
		return err
	}
	return json.Unmarshal(value, into)
}

// CheckEncoding returns ErrMediaType if the header has a Content-Encoding other than identity.
func CheckEncoding(header http.Header) error {
	for _, encoding := range header["Content-Encoding"] {
		if !strings.EqualFold(encoding, "identity") {
			return ErrMediaType
		}
	}
	return nil
}

// checkMedia returns ErrMediaType if the Content-Type is not JSON in UTF-8. The Content-Type may be
// missing.
func checkMedia(header http.Header) error {
	types := header["Content-Type"]
	if len(types) == 0 || len(types) == 1 && (types[0] == "" || types[0] == "application/json") {
		return nil
	}
	media, params, err := mime.ParseMediaType(types[0])
	charset, given := params["charset"]
	if len(types) > 1 || err != nil || media != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return ErrMediaType
	}
	return nil
}

func readError(err error, limit int64) error {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case tooLarge:
		return invalid("body", fmt.Sprintf("must be at most %d bytes", limit))
	case network || errors.Is(err, context.DeadlineExceeded):
		return invalid("body", "did not arrive in time")
	}
	return invalid("body", "did not arrive whole")
}

// kindOf describes the type of a field to a client.
func kindOf(target any) string {
	switch target.(type) {
	case *string, **string:
		return "a string"
	case *[]string:
		return "an array of strings"
	case *time.Time:
		return "an RFC 3339 time between the years 1970 and 9000"
	}
	return "an integer"
}

func invalid(field, what string) error {
	return &orders.InvalidError{Fields: map[string]string{field: what}}
}

// page responds with the page of rows that the parameters limit and cursor select. name is the
// JSON name of the rows, usual the default of limit.
func page[Row, JSON any](c *gin.Context, name string, usual, maximum int, show func(*Row) JSON,
	read func(limit int, cursor string) (rows []Row, next string, err error)) error {
	limit, err := limitOf(c, usual, maximum)
	if err != nil {
		return err
	}
	rows, next, err := read(limit, c.Query("cursor"))
	if err != nil {
		return err
	}
	list := make([]JSON, len(rows))
	for i := range rows {
		list[i] = show(&rows[i])
	}
	c.JSON(http.StatusOK, gin.H{name: list, "next_cursor": next})
	return nil
}

// limitOf returns the parameter limit of a request.
func limitOf(c *gin.Context, usual, maximum int) (int, error) {
	limit, err := strconv.Atoi(cmp.Or(c.Query("limit"), strconv.Itoa(usual)))
	if err != nil || limit < 1 || limit > maximum {
		return 0, invalid("limit", fmt.Sprintf("must be 1 to %d", maximum))
	}
	return limit, nil
}
