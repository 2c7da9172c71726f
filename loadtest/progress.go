package loadtest

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress tells a person what the run is doing: a bar on a terminal, a line
// now and then elsewhere. Its zero value says nothing. Write errors are no
// reason to stop a load test, and are ignored.
type progress struct {
	w io.Writer

	mu             sync.Mutex
	phase          string
	total, done    int
	accepted       int
	bar            *progressbar.ProgressBar // nil: plain lines
	began, printed time.Time
}

// every is the pause between plain lines of one phase.
const every = 2 * time.Second

// start begins a phase of total steps, 0 if their number is unknown.
func (p *progress) start(phase string, total int) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.total, p.done, p.accepted, p.bar = phase, total, 0, 0, nil
	p.began = time.Now()
	p.printed = p.began
	switch {
	case total > 0 && terminal(p.w):
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(phase),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("req"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish())
	case total > 0:
		fmt.Fprintf(p.w, "%s: %d to go\n", phase, total)
	default:
		fmt.Fprintf(p.w, "%s …\n", phase)
	}
}

// add counts one step of the phase.
func (p *progress) add() { p.step(false) }

// answered counts one answer of the attack.
func (p *progress) answered(r Request) { p.step(r.Status == 201) }

func (p *progress) step(accepted bool) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if accepted {
		p.accepted++
	}
	now := time.Now()
	switch {
	case p.bar != nil:
		if now.Sub(p.printed) > every/10 {
			p.printed = now
			p.bar.Describe(p.String())
		}
		_ = p.bar.Add(1)
	case now.Sub(p.printed) > every:
		p.printed = now
		fmt.Fprintf(p.w, "%s: %d of %d\n", p, p.done, p.total)
	}
}

func (p *progress) String() string {
	if p.accepted > 0 {
		return fmt.Sprintf("%s (%d accepted)", p.phase, p.accepted)
	}
	return p.phase
}

// end closes the phase.
func (p *progress) end() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
	if p.total > 0 {
		fmt.Fprintf(p.w, "%s: %d in %.1fs\n", p, p.done, time.Since(p.began).Seconds())
	}
	p.bar = nil
}

// terminal says whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
