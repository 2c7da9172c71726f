// Package recent provides a map that drops the entries not used for the longest time. It
// bounds the memory of a limiter under a flood of addresses.
package recent

// Half is the number of entries in each half of a Map. A bucket with its id takes about
// 200 bytes.
const Half = 16_384

// A Map holds at most twice Half entries and costs little more than a map. New and used
// entries are in young. When young is full, it becomes old, and the previous old entries
// are dropped. The zero Map is empty.
type Map[K comparable, V any] struct{ young, old map[K]V }

// Get returns the value of key, which counts as a use, and reports whether it exists.
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

// Put stores a value.
func (m *Map[K, V]) Put(key K, value V) {
	if _, known := m.young[key]; m.young == nil || !known && len(m.young) >= Half {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[key] = value
	delete(m.old, key)
}

// Remove deletes a value.
func (m *Map[K, V]) Remove(key K) {
	delete(m.young, key)
	delete(m.old, key)
}

// Len returns the number of values.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }
