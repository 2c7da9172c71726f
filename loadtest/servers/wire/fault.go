package wire

// A fault does something to the connections of the next matches.
type fault struct {
	match  func(sent []byte) bool
	left   int
	done   int
	silent bool // the connection goes silent, and the match is not delivered
	open   bool // the connection outlives the lost answer
}

// Silence has the next n connections that send a match go silent for good:
// the match is not delivered, nothing comes back, and both ends stay open. The
// result counts the connections that have gone silent.
func (w *Wire) Silence(n int, match func(sent []byte) bool) (silenced func() int) {
	return w.add(&fault{match: match, left: n, silent: true})
}

// LoseAnswers delivers the next n matches, loses their answers, and ends their
// connections. The result counts the answers that were lost.
func (w *Wire) LoseAnswers(n int, match func(sent []byte) bool) (lost func() int) {
	return w.add(&fault{match: match, left: n})
}

// MuteAnswers delivers the next n matches, and from then on loses every answer
// on their connections, which stay open. The result counts the matches whose
// answer was lost.
func (w *Wire) MuteAnswers(n int, match func(sent []byte) bool) (lost func() int) {
	return w.add(&fault{match: match, left: n, open: true})
}

func (w *Wire) add(f *fault) func() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return f.done
	}
}

// hit returns the fault that the piece meets, or nil.
func (w *Wire) hit(sent []byte) *fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		if f.left > 0 && f.match(sent) {
			f.left--
			if f.silent {
				f.done++ // of the others the answer counts, when it comes
			}
			return f
		}
	}
	return nil
}

func (w *Wire) count(f *fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.done++
}
