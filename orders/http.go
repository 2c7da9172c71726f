package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
)

// Errors that only a request over HTTP can have.
var ErrMediaType = errors.New("orders: body must be application/json")

// maxBody bounds a request's body, bytes.
const maxBody = 4 << 10

// HTTP is the service's part of API.md. Its handlers decode, call and encode;
// what an error looks like is decided by whoever wraps them.
type HTTP struct {
	service *Service
	// Buyer returns who is calling, as authenticated before.
	Buyer func(*gin.Context) string
}

// NewHTTP returns the handlers of s.
func NewHTTP(s *Service, buyer func(*gin.Context) string) *HTTP {
	return &HTTP{service: s, Buyer: buyer}
}

// decode reads a JSON body strictly: no unknown fields, nothing after it.
func decode(c *gin.Context, into any) error {
	if t := c.GetHeader("Content-Type"); t != "" && t != "application/json" {
		if media, _, err := mime.ParseMediaType(t); err != nil || media != "application/json" {
			return ErrMediaType
		}
	}
	d := json.NewDecoder(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return decodeError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("body", "must be one JSON object and nothing after it")
	}
	return nil
}

// decodeError says what is wrong in words of the API, not of the JSON library.
func decodeError(err error) error {
	var wrongType *json.UnmarshalTypeError
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &tooLarge):
		return invalid("body", fmt.Sprintf("must be at most %d bytes", maxBody))
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return invalid(wrongType.Field, "must be "+jsonType(wrongType.Type.Kind().String()))
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
		return invalid(name, "is not a field of this request")
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network):
		return invalid("body", "did not arrive in time")
	}
	return invalid("body", "must be a JSON object")
}

func jsonType(kind string) string {
	if kind == "string" {
		return "a string"
	}
	return "an integer"
}

func invalid(field, what string) error {
	return &InvalidError{Fields: map[string]string{field: what}}
}

// page reads ?limit=&cursor=.
func page(c *gin.Context, usual, most int) (limit int, cursor string, err error) {
	limit = usual
	if s := c.Query("limit"); s != "" {
		limit, err = strconv.Atoi(s)
		if err != nil || limit < 1 || limit > most {
			return 0, "", invalid("limit", fmt.Sprintf("must be 1 to %d", most))
		}
	}
	return limit, c.Query("cursor"), nil
}
