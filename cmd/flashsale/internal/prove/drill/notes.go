package drill

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// notes hold what was done to a sale and which promises were broken, with the times.
type notes struct {
	say  func(format string, args ...any)
	at   func() time.Duration // since the first order, 0 before it
	stop func()               // called when a promise is broken

	mu           sync.Mutex
	done, broken []string
	alike        map[string]int // broken promises by kind
}

// did notes a step of a fault.
func (n *notes) did(format string, args ...any) {
	n.mu.Lock() // for say too: two faults can be under way at once
	defer n.mu.Unlock()
	n.note(&n.done, "", fmt.Sprintf(format, args...))
}

// maxAlike is how many lines of one kind are reported.
const maxAlike = 3

// broke notes that a promise is broken. The kind of a line is what precedes its colon,
// and of each kind the first few lines are kept.
func (n *notes) broke(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	kind, _, _ := strings.Cut(line, ":")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.alike == nil {
		n.alike = map[string]int{}
	}
	if n.alike[kind]++; n.alike[kind] <= maxAlike {
		n.note(&n.broken, "BROKEN: ", line)
		n.stop()
	}
}

func (n *notes) note(list *[]string, mark, line string) {
	if at := n.at(); at > 0 {
		line = fmt.Sprintf("%.1fs %s", at.Seconds(), line)
	}
	n.say("%s", mark+line)
	*list = append(*list, line)
}
