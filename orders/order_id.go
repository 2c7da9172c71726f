package orders

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/google/uuid"
)

// NewOrderID returns an id for an order of sku: a UUIDv7 whose last 16 bits are a hash of the
// SKU. MayBeOf uses the hash to exclude gates that cannot have the order. The remaining 46
// random bits and the counter of UUIDv7 keep ids unique.
func NewOrderID(sku string) string {
	id := uuid.Must(uuid.NewV7()) // never fails: without random numbers Go ends the program
	binary.BigEndian.PutUint16(id[14:], skuHash(sku))
	return id.String()
}

// MayBeOf reports whether an order with this id can be an order of sku. id must be valid
// (IsOrderID). Two SKUs have the same hash with a probability of 1 in 65,536.
func MayBeOf(id, sku string) bool {
	return id[len(id)-4:] == fmt.Sprintf("%04x", skuHash(sku))
}

// holdMark separates the order's id from the random part of a hold id.
const holdMark = "+"

// NewHoldID returns the id of a hold for one attempt to take the order's units and pay it: the
// order's id and a random part.
func NewHoldID(order string) string { return order + holdMark + rand.Text() }

// OrderOf returns the id of the order that a hold belongs to. The first hold of an order has
// the order's id, and the hold of a Payment an id from NewHoldID.
func OrderOf(hold string) string {
	order, _, _ := strings.Cut(hold, holdMark)
	return order
}

func skuHash(sku string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(sku)) // never fails
	sum := h.Sum32()
	return uint16(sum>>16) ^ uint16(sum)
}
