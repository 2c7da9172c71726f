package drill

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// notes record what was done to a sale and which promises were broken, with their times.
type notes struct {
	say  func(format string, args ...any)
	at   func() time.Duration // time since the first order; 0 before it
	stop func()               // called when a promise is broken

	mu           sync.Mutex
	done, broken []string
	alike        map[string]int // broken promises by kind
}

// did records a step of a fault.
func (n *notes) did(format string, args ...any) {
	n.mu.Lock() // also protects say, because two faults may run at the same time
	defer n.mu.Unlock()
	n.note(&n.done, "", fmt.Sprintf(format, args...))
}

// maxAlike is the number of lines of one kind that are kept.
const maxAlike = 3

// broke records a broken promise. The kind of a line is the text before its colon. Of each
// kind, only the first maxAlike lines are kept.
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
