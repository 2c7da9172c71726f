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
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, audit)
	return nil
}

// Rows is GET /v1/admin/sales/{sku}/orders.
func (h *Handlers) Rows(c *gin.Context) error {
	limit, cursor, err := page(c, 100, 1000)
	if err != nil {
		return err
	}
	rows, next, err := h.service.OrdersOfSale(c.Request.Context(), c.Param("sku"), limit, cursor)
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, listed(rows, next, func(o *orders.Order) orders.RowJSON {
		return orders.RowJSON{OrderJSON: o.JSON(), Key: o.IdempotencyKey}
	}))
	return nil
}

// Refunds is GET /v1/admin/refunds.
func (h *Handlers) Refunds(c *gin.Context) error {
	limit, cursor, err := page(c, 100, 1000)
	if err != nil {
		return err
	}
	rows, next, err := h.service.Refunds(c.Request.Context(), limit, cursor)
	if err != nil {
		return err
	}
	list := make([]orders.RefundJSON, len(rows))
	for i := range rows {
		list[i] = rows[i].JSON()
	}
	c.JSON(http.StatusOK, gin.H{"refunds": list, "next_cursor": next})
	return nil
}

// Rebuild is POST /v1/admin/sales/{sku}/rebuild.
func (h *Handlers) Rebuild(c *gin.Context) error {
	audit, err := h.service.Rebuild(c.Request.Context(), c.Param("sku"))
	if err != nil {
		return err
	}
	c.JSON(http.StatusOK, audit)
	return nil
}
