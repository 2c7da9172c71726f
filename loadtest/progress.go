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

// progress prints the current step of the run, with one line every few seconds. The
// zero value prints nothing. Write errors are ignored, because they are no reason to
// stop a load test.
type progress struct {
	w io.Writer

	mu             sync.Mutex
	step           string
	total, done    int
	stocks         []*stockLine   // stocks of the attack; nil in other steps
	answers        map[string]int // number of answers of the attack, by kind
	began, printed time.Time
}

// every is the time between two lines of a step.
const every = 2 * time.Second

// start begins a step of total items, or of an unknown number if total is 0. The attack
// passes its stocks.
func (p *progress) start(step string, total int, stocks ...*stockLine) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.total, p.done = step, total, 0
	p.stocks, p.answers = stocks, map[string]int{}
	p.began = time.Now()
	p.printed = p.began
	if total > 0 {
		fmt.Fprint(p.w, judge.Sprintf("%s: %d to go\n", step, total))
	} else {
		fmt.Fprintf(p.w, "%s …\n", step)
	}
}

// printf prints one line between two steps.
func (p *progress) printf(format string, args ...any) {
	if p.w != nil {
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// add counts one item of the step. The attack passes the answer.
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
		fmt.Fprint(p.w, judge.Sprintf("%s: %d of %d%s\n", p.step, p.done, p.total, p.figures()))
	}
}

// end finishes the step.
func (p *progress) end() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total > 0 {
		fmt.Fprint(p.w, judge.Sprintf("%s: %d in %.1fs%s\n", p.step, p.done, time.Since(p.began).Seconds(), p.figures()))
	}
}

// answerKind names an answer in progress lines.
func answerKind(r judge.Request) string {
	switch {
	case r.Status == 0:
		return "no answer"
	case r.Code != "":
		return r.Code
	case r.Status/100 == 2:
		return "accepted"
	}
	return strconv.Itoa(r.Status)
}

// figures returns the stock and the answers, most frequent first.
func (p *progress) figures() string {
	list := p.stockLeft()
	for _, kind := range report.ByCount(p.answers) {
		list += judge.Sprintf(", %s %d", kind, p.answers[kind])
	}
	return list
}

// stockLeft returns the stock of all sales together, or "" if it is not known for all.
func (p *progress) stockLeft() string {
	sum := 0
	for _, line := range p.stocks {
		points := line.read()
		if len(points) == 0 {
			return ""
		}
		sum += points[len(points)-1]
	}
	if p.stocks == nil {
		return ""
	}
	return judge.Sprintf(", %d left", sum)
}
