package loadtest

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"flashsale/loadtest/judge"
	"flashsale/loadtest/report"
)

// progress writes what the run is doing, in a line every few seconds. The zero value
// writes nothing. Write errors are ignored: they are no reason to stop a load test.
type progress struct {
	w io.Writer

	mu             sync.Mutex
	phase          string
	total, done    int
	stocks         []*stockLine   // of the attack; nil: another phase
	answers        map[string]int // to the attack, by kind
	began, printed time.Time
}

// every is the pause between two lines of a phase.
const every = 2 * time.Second

// start begins a phase of total steps, 0 if their number is unknown. Of an attack
// it shows the stocks, too.
func (p *progress) start(phase string, total int, stocks ...*stockLine) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.total, p.done = phase, total, 0
	p.stocks, p.answers = stocks, map[string]int{}
	p.began = time.Now()
	p.printed = p.began
	if total > 0 {
		fmt.Fprint(p.w, judge.Sprintf("%s: %d to go\n", phase, total))
	} else {
		fmt.Fprintf(p.w, "%s …\n", phase)
	}
}

// say prints one line between the phases.
func (p *progress) say(format string, args ...any) {
	if p.w != nil {
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// add counts one step of the phase; of an attack, with the answers to it.
func (p *progress) add(answers ...judge.Request) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	for _, r := range answers {
		p.answers[answerKind(r)]++
	}
	if now := time.Now(); now.Sub(p.printed) > every {
		p.printed = now
		fmt.Fprint(p.w, judge.Sprintf("%s: %d of %d%s\n", p.phase, p.done, p.total, p.figures()))
	}
}

// end closes the phase.
func (p *progress) end() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total > 0 {
		fmt.Fprint(p.w, judge.Sprintf("%s: %d in %.1fs%s\n", p.phase, p.done, time.Since(p.began).Seconds(), p.figures()))
	}
}

// answerKind names an answer: its problem code, yes, no answer, or its status.
func answerKind(r judge.Request) string {
	switch {
	case r.Status == 0:
		return "no answer"
	case r.Code != "":
		return r.Code
	case r.Status/100 == 2:
		return "yes"
	}
	return strconv.Itoa(r.Status)
}

// figures are the stock and the answers, the most frequent first.
func (p *progress) figures() string {
	list := p.left()
	for _, kind := range report.ByCount(p.answers) {
		list += judge.Sprintf(", %s %d", kind, p.answers[kind])
	}
	return list
}

// left is the stock of all sales together, if it is known for all.
func (p *progress) left() string {
	sum := 0
	for _, line := range p.stocks {
		points := line.read()
		if len(points) == 0 {
			return ""
		}
		sum += points[len(points)-1].Available
	}
	if p.stocks == nil {
		return ""
	}
	return judge.Sprintf(", %d left", sum)
}
