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

// SKUParam is the name of the gin parameter in which PlaceOrder stores the SKU. Middleware that
// counts requests by SKU reads it.
const SKUParam = "flashsale/sku"

// PlaceOrder handles POST /v1/orders.
func (h *Handlers) PlaceOrder(c *gin.Context) error {
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
		c.Header("Location", h.Prefix(c)+"/v1/orders/"+o.ID)
		c.JSON(http.StatusCreated, o.JSON())
		return nil
	}
	// SKU and key find the order if it becomes durable under another id.
	where := h.Prefix(c) + "/v1/orders/" + o.ID + "?sku=" + url.QueryEscape(o.SKU)
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

// prefersAsync reports whether the request has "Prefer: respond-async" (RFC 7240).
func prefersAsync(header http.Header) bool {
	_, given := preference(header, "respond-async")
	return given
}

// preference returns the value of a preference (RFC 7240), and whether the request has it. Of
// several preferences with the name, the first counts.
func preference(header http.Header, name string) (value string, given bool) {
	for _, line := range header["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			key, value, _ := strings.Cut(preference, "=")
			if strings.EqualFold(strings.TrimSpace(key), name) {
				return strings.Trim(strings.TrimSpace(value), `"`), true
			}
		}
	}
	return "", false
}

// GetOrder handles GET /v1/orders/{id}.
func (h *Handlers) GetOrder(c *gin.Context) error {
	o, err := h.service.Order(c.Request.Context(), h.Buyer(c), c.Param("id"), c.Query("sku"), c.Query("key"))
	return answer(c, o, err)
}

// answer responds with 200 and the order, or returns err.
func answer(c *gin.Context, o *orders.Order, err error) error {
	if err == nil {
		c.JSON(http.StatusOK, o.JSON())
	}
	return err
}

// ListOrders handles GET /v1/orders.
func (h *Handlers) ListOrders(c *gin.Context) error {
	return page(c, "orders", 20, 100, (*orders.Order).JSON, func(limit int, cursor string) ([]orders.Order, string, error) {
		return h.service.OrdersOfBuyer(c.Request.Context(), h.Buyer(c), limit, cursor)
	})
}

// PayOrder handles POST /v1/orders/{id}/pay.
func (h *Handlers) PayOrder(c *gin.Context) error {
	var ref string
	var charge orders.Charge
	wrong, err := Decode(c, map[string]any{"payment_ref": &ref, "amount": &charge.Amount, "currency": &charge.Currency}, "amount", "currency")
	if err := errors.Join(err, wrong.Err()); err != nil {
		return err
	}
	buyer, id := h.Buyer(c), c.Param("id")
	if h.PayForAnyBuyer {
		if buyer, err = h.service.BuyerOf(c.Request.Context(), id); err != nil {
			return err
		}
	}
	o, err := h.service.PayCharge(c.Request.Context(), buyer, id, ref, charge)
	return answer(c, o, err)
}

// CancelOrder handles POST /v1/orders/{id}/cancel. The request has no body.
func (h *Handlers) CancelOrder(c *gin.Context) error {
	o, err := h.service.Cancel(c.Request.Context(), h.Buyer(c), c.Param("id"))
	return answer(c, o, err)
}

// offerAge is the maximum age of the cached offers. A node reads the offers at most once in that
// time, for all callers together.
const offerAge = time.Second

// offerBytes contains the encoded offers. All callers share the bytes, so slow readers do not
// need more memory.
type offerBytes struct {
	all   []byte            // response of ListSales
	bySKU map[string][]byte // responses of GetSale
}

func (h *Handlers) readOffers(ctx context.Context) (offerBytes, error) {
	ctx, cancel := context.WithTimeout(ctx, store.DefaultTimeout)
	defer cancel()
	offers, err := h.service.Offers(ctx)
	if err != nil {
		return offerBytes{}, err
	}
	b, list := offerBytes{bySKU: map[string][]byte{}}, make([][]byte, len(offers))
	for i := range offers {
		if list[i], err = json.Marshal(offers[i]); err != nil {
			break
		}
		b.bySKU[offers[i].SKU] = list[i]
	}
	b.all = slices.Concat([]byte(`{"sales":[`), bytes.Join(list, []byte(",")), []byte("]}"))
	return b, err
}

// ListSales handles GET /v1/sales.
func (h *Handlers) ListSales(c *gin.Context) error {
	offers, err := h.offers.Get(c.Request.Context())
	if err != nil {
		return err
	}
	return cacheable(c, offers.all)
}

// GetSale handles GET /v1/sales/{sku}. The cached offers lack a sale that is new, or that has been
// over for long. In that case, and if the offers cannot be read, GetSale reads the sale itself.
func (h *Handlers) GetSale(c *gin.Context) error {
	ctx, sku := c.Request.Context(), c.Param("sku")
	if offers, err := h.offers.Get(ctx); err == nil && offers.bySKU[sku] != nil {
		return cacheable(c, offers.bySKU[sku])
	}
	offer, err := h.service.Offer(ctx, sku)
	if err != nil {
		return err
	}
	c.Header("Cache-Control", cacheControl)
	c.JSON(http.StatusOK, offer)
	return nil
}

// cacheControl lets caches share an offer for offerAge. An offer has no ETag, because its number of
// available units changes while its version does not.
const cacheControl = "public, max-age=1"

func cacheable(c *gin.Context, body []byte) error {
	c.Header("Cache-Control", cacheControl)
	c.Data(http.StatusOK, "application/json; charset=utf-8", body)
	return nil
}
