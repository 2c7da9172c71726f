package recent

import "testing"

// However many keys there are, what is kept of them is bounded; those that are asked
// for stay known, and what is removed is not.
func TestMemoryIsBounded(t *testing.T) {
	var m Map[int, string]
	const asked = -1
	m.Put(asked, "asked")
	for n := range 5 * Half {
		m.Put(n, "new")
		if n%1000 != 0 {
			continue
		}
		if _, known := m.Get(asked); !known {
			t.Fatalf("forgotten after %d others", n)
		}
	}
	if n := m.Len(); n > 2*Half || n < Half {
		t.Errorf("%d are kept, of at most %d", n, 2*Half)
	}
	if _, known := m.Get(0); known {
		t.Error("what nobody has asked for is kept")
	}
	m.Remove(asked)
	if _, known := m.Get(asked); known {
		t.Error("what was removed is kept")
	}
}
