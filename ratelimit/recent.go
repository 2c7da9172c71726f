package ratelimit

// recentEach is how many entries one of recent's two halves has. A bucket with
// its id takes some 200 bytes.
const recentEach = 16_384

// recent is a map that forgets what was used least lately: what came or was
// found since the last turn is in young, what was in young before that in old,
// and a turn is when young is full. It holds at most twice recentEach, for no
// more than a map's price. Its zero value is empty.
type recent[K comparable, V any] struct{ young, old map[K]V }

func (r *recent[K, V]) get(key K) (V, bool) {
	if value, known := r.young[key]; known {
		return value, true
	}
	value, known := r.old[key]
	if known {
		r.put(key, value)
	}
	return value, known
}

func (r *recent[K, V]) put(key K, value V) {
	if _, known := r.young[key]; !known && len(r.young) >= recentEach {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = map[K]V{}
	}
	r.young[key] = value
	delete(r.old, key)
}

func (r *recent[K, V]) remove(key K) {
	delete(r.young, key)
	delete(r.old, key)
}

func (r *recent[K, V]) len() int { return len(r.young) + len(r.old) }
