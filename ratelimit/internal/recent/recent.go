// Package recent is a map that forgets what was used least lately: the memory of a
// limiter, which a flood of addresses must not fill.
package recent

// Half is how many entries one of a Map's two halves has. A bucket with its id
// takes some 200 bytes.
const Half = 16_384

// Map holds at most twice Half, for no more than a map's price: what came or was
// found since the last turn is in young, what was in young before that in old, and a
// turn is when young is full. Its zero value is empty.
type Map[K comparable, V any] struct{ young, old map[K]V }

// Get finds a value, which counts as a use.
func (m *Map[K, V]) Get(key K) (V, bool) {
	if value, known := m.young[key]; known {
		return value, true
	}
	value, known := m.old[key]
	if known {
		m.Put(key, value)
	}
	return value, known
}

// Put keeps a value.
func (m *Map[K, V]) Put(key K, value V) {
	if _, known := m.young[key]; m.young == nil || !known && len(m.young) >= Half {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[key] = value
	delete(m.old, key)
}

// Remove forgets a value.
func (m *Map[K, V]) Remove(key K) {
	delete(m.young, key)
	delete(m.old, key)
}

// Len is how many values there are.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }
