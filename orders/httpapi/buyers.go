package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/orders"
	"flashsale/orders/shop"
	"flashsale/orders/store"
)

// SKUParam is the parameter in which Place leaves the SKU, for the middleware that
// counts requests.
const SKUParam = "flashsale/sku"

// Place is POST /v1/orders.
func (h *Handlers) Place(c *gin.Context) error {
	p := shop.Placement{Buyer: h.Buyer(c), IP: c.ClientIP(), Async: prefersAsync(c.Request.Header)}
	wrong, err := Decode(c, map[string]any{"sku": &p.SKU, "quantity": &p.Quantity})
	if err := errors.Join(err, wrong.Err()); err != nil {
		return err
	}
	c.AddParam(SKUParam, p.SKU)
	key, given := c.Request.Header["Idempotency-Key"]
	if given && (len(key) != 1 || key[0] == "") {
		return invalid("Idempotency-Key", "must be given once, with 1 to 128 visible ASCII characters")
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
	if o.Status != orders.Reserved {
		c.Header("Location", "/v1/orders/"+o.ID)
		c.JSON(http.StatusCreated, o.JSON())
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
	c.JSON(http.StatusAccepted, o.JSON())
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
func (h *Handlers) Get(c *gin.Context) error {
	o, err := h.service.Order(c.Request.Context(), h.Buyer(c), c.Param("id"), c.Query("sku"), c.Query("key"))
	return answer(c, o, err)
}

// answer is 200 with the order, or the error.
func answer(c *gin.Context, o *orders.Order, err error) error {
	if err == nil {
		c.JSON(http.StatusOK, o.JSON())
	}
	return err
}

// List is GET /v1/orders.
func (h *Handlers) List(c *gin.Context) error {
	return page(c, "orders", 20, 100, (*orders.Order).JSON, func(limit int, cursor string) ([]orders.Order, string, error) {
		return h.service.OrdersOf(c.Request.Context(), h.Buyer(c), limit, cursor)
	})
}

// Pay is POST /v1/orders/{id}/pay.
func (h *Handlers) Pay(c *gin.Context) error {
	var ref string
	wrong, err := Decode(c, map[string]any{"payment_ref": &ref})
	if err := errors.Join(err, wrong.Err()); err != nil {
		return err
	}
	buyer, id := h.Buyer(c), c.Param("id")
	if h.AnyBuyers {
		if buyer, err = h.service.BuyerOf(c.Request.Context(), id); err != nil {
			return err
		}
	}
	o, err := h.service.Pay(c.Request.Context(), buyer, id, ref)
	return answer(c, o, err)
}

// Cancel is POST /v1/orders/{id}/cancel. It takes no body.
func (h *Handlers) Cancel(c *gin.Context) error {
	o, err := h.service.Cancel(c.Request.Context(), h.Buyer(c), c.Param("id"))
	return answer(c, o, err)
}

// offerAge is how old what is on sale may be: so often is it read, whoever asks.
const offerAge = time.Second

// offerBytes is what is on sale as it is sent, all of it and by SKU. All callers
// share the bytes: a slow reader holds none of its own.
type offerBytes struct {
	all []byte
	one map[string][]byte
	tag map[string]string // ETags
}

func (h *Handlers) readOffers(ctx context.Context) (offerBytes, error) {
	ctx, cancel := context.WithTimeout(ctx, store.DefaultTimeout)
	defer cancel()
	offers, err := h.service.Offers(ctx)
	if err != nil {
		return offerBytes{}, err
	}
	b, list := offerBytes{one: map[string][]byte{}, tag: map[string]string{}}, make([][]byte, len(offers))
	for i := range offers {
		if list[i], err = json.Marshal(offers[i]); err != nil {
			break
		}
		b.one[offers[i].SKU], b.tag[offers[i].SKU] = list[i], offers[i].ETag()
	}
	b.all = slices.Concat([]byte(`{"sales":[`), bytes.Join(list, []byte(",")), []byte("]}"))
	return b, err
}

// Sales is GET /v1/sales.
func (h *Handlers) Sales(c *gin.Context) error {
	offers, err := h.offers.Get(c.Request.Context())
	if err != nil {
		return err
	}
	return public(c, offers.all)
}

// Sale is GET /v1/sales/{sku}. One that is not in the list is new, or over for
// long, or what it would be read with does not answer: it is read by itself.
func (h *Handlers) Sale(c *gin.Context) error {
	ctx, sku := c.Request.Context(), c.Param("sku")
	if offers, err := h.offers.Get(ctx); err == nil && offers.one[sku] != nil {
		c.Header("ETag", offers.tag[sku])
		return public(c, offers.one[sku])
	}
	offer, err := h.service.Offer(ctx, sku)
	if err != nil {
		return err
	}
	c.Header("ETag", offer.ETag())
	c.Header("Cache-Control", forAll)
	c.JSON(http.StatusOK, offer)
	return nil
}

// forAll is what caches may do with what is on sale.
const forAll = "public, max-age=1"

func public(c *gin.Context, body []byte) error {
	c.Header("Cache-Control", forAll)
	c.Data(http.StatusOK, "application/json; charset=utf-8", body)
	return nil
}
