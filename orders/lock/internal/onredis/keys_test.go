package onredis

import (
	"errors"
	"strings"
	"testing"

	"flashsale/orders/lock/lease"
)

// All keys of a lock share its slot, which is that of the part in braces.
func TestKeysShareASlot(t *testing.T) {
	for key, tag := range map[string]string{"lock:{sku}": "{sku}", "plain": "{plain}", "a{b}c{d}": "{b}"} {
		if err := CheckKey(key); err != nil {
			t.Error(err)
		}
		for _, k := range Keys(key)[1:] {
			_, rest, _ := strings.Cut(k, "{")
			if first, _, _ := strings.Cut(rest, "}"); "{"+first+"}" != tag {
				t.Errorf("%q has %q in slot of {%s}, want %s", key, k, first, tag)
			}
		}
	}
	for _, key := range []string{"", "{}", "a}b", "{", "{}x"} {
		if err := CheckKey(key); !errors.Is(err, lease.ErrKey) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
