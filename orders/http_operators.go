package orders

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// PutSale is PUT /v1/admin/sales/{sku}.
func (h *HTTP) PutSale(c *gin.Context) error {
	var body struct {
		Name           string `json:"name"`
		Price          int64  `json:"price"`
		Currency       string `json:"currency"`
		Total          int64  `json:"total"`
		PerBuyerLimit  int64  `json:"per_buyer_limit"`
		OpensAt        string `json:"opens_at"`
		ClosesAt       string `json:"closes_at"`
		PaymentWindowS int64  `json:"payment_window_s"`
		ReserveOn      string `json:"reserve_on"`
	}
	body.ReserveOn = OnOrder
	if err := decode(c, &body); err != nil {
		return err
	}
	if body.ReserveOn == "" { // said so, not left out
		return invalid("reserve_on", "must be order or payment")
	}
	// A time that does not parse is the zero time, which Validate names.
	opens, _ := time.Parse(time.RFC3339, body.OpensAt)
	closes, _ := time.Parse(time.RFC3339, body.ClosesAt)
	offer, created, err := h.service.PutSale(c.Request.Context(), Sale{
		SKU: c.Param("sku"), Name: body.Name, Price: body.Price, Currency: body.Currency, Total: body.Total,
		PerBuyerLimit: body.PerBuyerLimit, OpensAt: opens, ClosesAt: closes, PaymentWindowS: body.PaymentWindowS,
		ReserveOn: body.ReserveOn,
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Header("Location", "/v1/sales/"+offer.SKU)
	}
	c.JSON(status, offer)
	return nil
}

// Audit is GET /v1/admin/sales/{sku}/audit.
func (h *HTTP) Audit(c *gin.Context) error {
	audit, err := h.service.Audit(c.Request.Context(), c.Param("sku"))
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, audit)
	return nil
}

// Rows is GET /v1/admin/sales/{sku}/orders.
func (h *HTTP) Rows(c *gin.Context) error {
	limit, cursor, err := page(c, 100, 1000)
	if err != nil {
		return err
	}
	rows, next, err := h.service.OrdersOfSale(c.Request.Context(), c.Param("sku"), limit, cursor)
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, listed(rows, next, func(o *Order) rowJSON {
		return rowJSON{orderJSON: o.json(), Key: o.IdempotencyKey}
	}))
	return nil
}

// Refunds is GET /v1/admin/refunds.
func (h *HTTP) Refunds(c *gin.Context) error {
	limit, cursor, err := page(c, 100, 1000)
	if err != nil {
		return err
	}
	rows, next, err := h.service.Refunds(c.Request.Context(), limit, cursor)
	if err != nil {
		return err
	}
	list := make([]refundJSON, len(rows))
	for i := range rows {
		list[i] = rows[i].json()
	}
	c.JSON(http.StatusOK, gin.H{"refunds": list, "next_cursor": next})
	return nil
}

// Rebuild is POST /v1/admin/sales/{sku}/rebuild.
func (h *HTTP) Rebuild(c *gin.Context) error {
	audit, err := h.service.Rebuild(c.Request.Context(), c.Param("sku"))
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, audit)
	return nil
}
