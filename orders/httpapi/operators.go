package httpapi

import (
	"errors"
	"maps"
	"net/http"

	"github.com/gin-gonic/gin"

	"flashsale/orders"
)

// PutSale is PUT /v1/admin/sales/{sku}.
func (h *Handlers) PutSale(c *gin.Context) error {
	sale := orders.Sale{SKU: c.Param("sku"), ReserveOn: orders.OnOrder}
	wrong, err := Decode(c, map[string]any{
		"name": &sale.Name, "price": &sale.Price, "currency": &sale.Currency, "total": &sale.Total,
		"per_buyer_limit": &sale.PerBuyerLimit, "opens_at": &sale.OpensAt, "closes_at": &sale.ClosesAt,
		"payment_window_s": &sale.PaymentWindowS, "reserve_on": &sale.ReserveOn,
	}, "reserve_on")
	if err != nil {
		return err
	}
	var values *orders.InvalidError
	if errors.As(sale.Validate(), &values) { // of a field that is missing, that is said
		maps.Copy(values.Fields, wrong)
		return values
	}
	if err := wrong.Err(); err != nil {
		return err
	}
	defer h.offers.Forget() // also where the keeper was too slow: the change stands
	offer, created, err := h.service.PutSale(c.Request.Context(), sale)
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
func (h *Handlers) Audit(c *gin.Context) error {
	audit, err := h.service.Audit(c.Request.Context(), c.Param("sku"))
	if err == nil {
		c.JSON(http.StatusOK, audit)
	}
	return err
}

// Rows is GET /v1/admin/sales/{sku}/orders.
func (h *Handlers) Rows(c *gin.Context) error {
	row := func(o *orders.Order) orders.RowJSON {
		return orders.RowJSON{OrderJSON: o.JSON(), Key: o.IdempotencyKey}
	}
	return page(c, "orders", 100, 1000, row, func(limit int, cursor string) ([]orders.Order, string, error) {
		return h.service.OrdersOfSale(c.Request.Context(), c.Param("sku"), limit, cursor)
	})
}

// Refunds is GET /v1/admin/refunds.
func (h *Handlers) Refunds(c *gin.Context) error {
	return page(c, "refunds", 100, 1000, (*orders.Refund).JSON, func(limit int, cursor string) ([]orders.Refund, string, error) {
		return h.service.Refunds(c.Request.Context(), limit, cursor)
	})
}

// Rebuild is POST /v1/admin/sales/{sku}/rebuild.
func (h *Handlers) Rebuild(c *gin.Context) error {
	audit, err := h.service.Rebuild(c.Request.Context(), c.Param("sku"))
	if err == nil {
		c.JSON(http.StatusOK, audit)
	}
	return err
}
