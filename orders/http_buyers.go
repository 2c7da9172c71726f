package orders

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"
)

// Place is POST /v1/orders.
func (h *HTTP) Place(c *gin.Context) error {
	var body struct {
		SKU      string `json:"sku"`
		Quantity int64  `json:"quantity"`
	}
	if err := decode(c, &body); err != nil {
		return err
	}
	key, given := c.Request.Header["Idempotency-Key"]
	if given && (len(key) != 1 || key[0] == "") {
		return invalid("Idempotency-Key", "must be given once, with 1 to 128 visible ASCII characters")
	}
	p := Placement{
		Buyer: h.Buyer(c), IP: c.ClientIP(), SKU: body.SKU, Quantity: body.Quantity,
		Async: prefersAsync(c.Request.Header),
	}
	if given {
		p.Key = key[0]
	}
	placed, err := h.service.Place(c.Request.Context(), p)
	if err != nil {
		return err
	}
	o := placed.Order
	if placed.Replayed {
		c.Header("Idempotent-Replayed", "true")
	}
	if o.Status != Reserved {
		c.Header("Location", "/v1/orders/"+o.ID)
		c.JSON(http.StatusCreated, o.json())
		return nil
	}
	// What finds the order when it turns out to be durable under another id.
	where := "/v1/orders/" + o.ID + "?sku=" + url.QueryEscape(o.SKU)
	if p.Key != "" {
		where += "&key=" + url.QueryEscape(p.Key)
	}
	c.Header("Location", where)
	if p.Async {
		c.Header("Preference-Applied", "respond-async")
	}
	c.JSON(http.StatusAccepted, o.json())
	return nil
}

// prefersAsync tells whether the caller sent "Prefer: respond-async" (RFC 7240).
func prefersAsync(header http.Header) bool {
	for _, line := range header["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// Get is GET /v1/orders/{id}.
func (h *HTTP) Get(c *gin.Context) error {
	o, err := h.service.Order(c.Request.Context(), h.Buyer(c), c.Param("id"), c.Query("sku"), c.Query("key"))
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, o.json())
	return nil
}

// List is GET /v1/orders.
func (h *HTTP) List(c *gin.Context) error {
	limit, cursor, err := page(c, 20, 100)
	if err != nil {
		return err
	}
	rows, next, err := h.service.OrdersOf(c.Request.Context(), h.Buyer(c), limit, cursor)
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, listed(rows, next, (*Order).json))
	return nil
}

func listed[T any](rows []Order, next string, show func(*Order) T) gin.H {
	list := make([]T, len(rows))
	for i := range rows {
		list[i] = show(&rows[i])
	}
	return gin.H{"orders": list, "next_cursor": next}
}

// Pay is POST /v1/orders/{id}/pay.
func (h *HTTP) Pay(c *gin.Context) error {
	var body struct {
		PaymentRef string `json:"payment_ref"`
	}
	if err := decode(c, &body); err != nil {
		return err
	}
	o, err := h.service.Pay(c.Request.Context(), h.Buyer(c), c.Param("id"), body.PaymentRef)
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, o.json())
	return nil
}

// Cancel is POST /v1/orders/{id}/cancel. It takes no body.
func (h *HTTP) Cancel(c *gin.Context) error {
	o, err := h.service.Cancel(c.Request.Context(), h.Buyer(c), c.Param("id"))
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, o.json())
	return nil
}

// Sales is GET /v1/sales.
func (h *HTTP) Sales(c *gin.Context) error {
	offers, err := h.service.Offers(c.Request.Context())
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "public, max-age=1")
	c.JSON(http.StatusOK, gin.H{"sales": offers})
	return nil
}

// Sale is GET /v1/sales/{sku}.
func (h *HTTP) Sale(c *gin.Context) error {
	offer, err := h.service.Offer(c.Request.Context(), c.Param("sku"))
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "public, max-age=1")
	c.JSON(http.StatusOK, offer)
	return nil
}
