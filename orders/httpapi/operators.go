package httpapi

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"flashsale/orders"
)

// PutSale handles PUT /v1/admin/sales/{sku}.
func (h *Handlers) PutSale(c *gin.Context) error {
	sale := orders.Sale{SKU: c.Param("sku"), ReserveOn: orders.OnOrder}
	wrong, err := Decode(c, map[string]any{
		"name": &sale.Name, "description": &sale.Description, "image_url": &sale.ImageURL, "price": &sale.Price, "currency": &sale.Currency, "total": &sale.Total,
		"per_buyer_limit": &sale.UnitsPerBuyer, "opens_at": &sale.OpensAt, "closes_at": &sale.ClosesAt,
		"payment_window_s": &sale.PaymentWindowS, "reserve_on": &sale.ReserveOn,
	}, "description", "image_url", "reserve_on")
	if err != nil {
		return err
	}
	if invalid, ok := errors.AsType[*orders.InvalidError](sale.Validate()); ok { // "is missing" replaces the message about a zero value
		maps.Copy(invalid.Fields, wrong)
		return invalid
	}
	if err := wrong.Err(); err != nil {
		return err
	}
	conditions, err := preconditions(c.Request.Header)
	if err != nil {
		return err
	}
	defer h.offers.Forget() // also after an error, because the database may have the change
	offer, created, err := h.service.PutSale(c.Request.Context(), sale, conditions...)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Header("Location", h.Prefix(c)+"/v1/sales/"+offer.SKU)
	}
	c.JSON(status, offer)
	return nil
}

// ifMatch returns the precondition of the header If-Match, if there is one.
func ifMatch(header http.Header) (list []orders.Precondition) {
	if values, given := header["If-Match"]; given {
		list = append(list, orders.IfMatch(values...))
	}
	return list
}

// preconditions returns the preconditions in the header of a PUT.
func preconditions(header http.Header) (list []orders.Precondition, err error) {
	list = ifMatch(header)
	if values, given := header["If-None-Match"]; given {
		list = append(list, orders.IfNew)
		if !slices.Equal(values, []string{"*"}) {
			err = invalid("If-None-Match", "must be *, which means that the sale must not exist")
		}
	}
	return list, err
}

// EndSale handles POST /v1/admin/sales/{sku}/close. The request has no body.
func (h *Handlers) EndSale(c *gin.Context) error {
	defer h.offers.Forget()
	offer, err := h.service.EndSale(c.Request.Context(), c.Param("sku"), ifMatch(c.Request.Header)...)
	if err == nil {
		c.JSON(http.StatusOK, offer)
	}
	return err
}

// AuditSale handles GET /v1/admin/sales/{sku}/audit.
func (h *Handlers) AuditSale(c *gin.Context) error {
	audit, err := h.service.Audit(c.Request.Context(), c.Param("sku"))
	if err == nil {
		c.JSON(http.StatusOK, audit)
	}
	return err
}

// GetAnyOrder handles GET /v1/admin/orders/{id}.
func (h *Handlers) GetAnyOrder(c *gin.Context) error {
	ctx, id := c.Request.Context(), c.Param("id")
	buyer, err := h.service.BuyerOf(ctx, id)
	if err != nil {
		return err
	}
	o, err := h.service.Order(ctx, buyer, id, "", "")
	if err == nil {
		c.JSON(http.StatusOK, o.Row())
	}
	return err
}

// ListBuyerOrders handles GET /v1/admin/orders.
func (h *Handlers) ListBuyerOrders(c *gin.Context) error {
	buyer := c.Query("buyer")
	if !orders.IsBuyer(buyer) {
		return invalid("buyer", "must be given, as 1 to 64 characters of A-Z a-z 0-9 . _ : -")
	}
	return page(c, "orders", 100, 1000, (*orders.Order).Row, func(limit int, cursor string) ([]orders.Order, string, error) {
		return h.service.OrdersOfBuyer(c.Request.Context(), buyer, limit, cursor)
	})
}

// ListSaleOrders handles GET /v1/admin/sales/{sku}/orders.
func (h *Handlers) ListSaleOrders(c *gin.Context) error {
	return page(c, "orders", 100, 1000, (*orders.Order).Row, func(limit int, cursor string) ([]orders.Order, string, error) {
		return h.service.OrdersOfSale(c.Request.Context(), c.Param("sku"), limit, cursor)
	})
}

// ListAllSales handles GET /v1/admin/sales. It reads the database, without the cached offers.
func (h *Handlers) ListAllSales(c *gin.Context) error {
	over := c.Query("over")
	if over != "" && over != "false" && over != "true" {
		return invalid("over", "must be true or false")
	}
	return page(c, "sales", 100, 1000, func(o *orders.Offer) orders.Offer { return *o }, func(limit int, cursor string) ([]orders.Offer, string, error) {
		return h.service.AllOffers(c.Request.Context(), over == "true", limit, cursor)
	})
}

// ListRefunds handles GET /v1/admin/refunds.
func (h *Handlers) ListRefunds(c *gin.Context) error {
	return page(c, "refunds", 100, 1000, (*orders.Claim).JSON, func(limit int, cursor string) ([]orders.Claim, string, error) {
		return h.service.Claims(c.Request.Context(), limit, cursor)
	})
}

// VoidOrders handles POST /v1/admin/sales/{sku}/void.
func (h *Handlers) VoidOrders(c *gin.Context) error {
	var ids []string
	reason := string(orders.Voided)
	wrong, err := decode(c, maxVoidBody, map[string]any{"orders": &ids, "reason": &reason}, "reason")
	if err := errors.Join(err, wrong.Err()); err != nil {
		return err
	}
	voided, err := h.service.Void(c.Request.Context(), c.Param("sku"), ids, orders.Reason(reason))
	if err == nil {
		c.JSON(http.StatusOK, voided)
	}
	return err
}

// RebuildSale handles POST /v1/admin/sales/{sku}/rebuild.
func (h *Handlers) RebuildSale(c *gin.Context) error {
	audit, err := h.service.Rebuild(c.Request.Context(), c.Param("sku"))
	if err == nil {
		c.JSON(http.StatusOK, audit)
	}
	return err
}
