package orders

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/google/uuid"
)

// NewOrderID returns an id for an order of sku: a UUIDv7 whose last 16 bits,
// which are random in others, are a hash of the SKU. So an id by itself says
// which gates may know it. 46 random bits and a count within the millisecond
// keep ids apart.
func NewOrderID(sku string) string {
	id := uuid.Must(uuid.NewV7()) // Go ends a program that has no random numbers
	binary.BigEndian.PutUint16(id[14:], skuHash(sku))
	return id.String()
}

// MayBeOf tells whether the order with this id may be one of sku. Two SKUs in
// 65,536 have the same hash.
func MayBeOf(id, sku string) bool {
	return id[len(id)-4:] == fmt.Sprintf("%04x", skuHash(sku))
}

// holdMark stands between an order's id and the rest of a hold's.
const holdMark = "+"

// NewHoldID returns what gate and queue know one attempt to pay an order late by:
// the order's id and something random.
func NewHoldID(order string) string { return order + holdMark + rand.Text() }

// OrderOf returns the id of the order that a hold at the gate is of: one that was
// paid late has a hold of its own, any other has the order's id.
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
