package wire

// A fault affects the connections of the next pieces that match.
type fault struct {
	match  func(sent []byte) bool
	left   int
	done   int
	silent bool // drop the match and all later traffic, and keep the connection open
	open   bool // keep the connection open after the lost answer
}

// Silence drops the next n matches and all later traffic on their connections, which
// stay open. The returned function reports the number of silenced connections.
func (w *Wire) Silence(n int, match func(sent []byte) bool) (silenced func() int) {
	return w.addFault(&fault{match: match, left: n, silent: true})
}

// LoseAnswers delivers the next n matches, drops their answers and closes their
// connections. The returned function reports the number of lost answers.
func (w *Wire) LoseAnswers(n int, match func(sent []byte) bool) (lost func() int) {
	return w.addFault(&fault{match: match, left: n})
}

// MuteAnswers delivers the next n matches and then drops all answers on their
// connections, which stay open. The returned function reports the number of matches
// whose answer was lost.
func (w *Wire) MuteAnswers(n int, match func(sent []byte) bool) (lost func() int) {
	return w.addFault(&fault{match: match, left: n, open: true})
}

func (w *Wire) addFault(f *fault) func() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return f.done
	}
}

// hit returns the fault that affects this piece, or nil.
func (w *Wire) hit(sent []byte) *fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		if f.left > 0 && f.match(sent) {
			f.left--
			if f.silent {
				f.done++ // the other faults are counted when the answer arrives
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
