package loadtest

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress tells a person what the run is doing: one line with a bar that
// keeps up with it on a terminal, a line now and then elsewhere. Its zero value
// says nothing. Write errors are no reason to stop a load test, and are
// ignored.
type progress struct {
	w io.Writer

	mu             sync.Mutex
	phase          string
	total, done    int
	live           *live                    // of the attack; nil: another phase
	bar            *progressbar.ProgressBar // nil: plain lines
	width          int                      // of the terminal
	began, printed time.Time
}

// Pauses between lines.
const (
	every   = 2 * time.Second // plain ones
	refresh = 250 * time.Millisecond
)

// start begins a phase of total steps, 0 if their number is unknown.
func (p *progress) start(phase string, total int) { p.begin(phase, total, nil) }

// attack begins the attack, which has more to tell.
func (p *progress) attack(total int, runs []*run) {
	p.begin("attack", total, &live{runs: runs, answers: map[string]int{}})
}

func (p *progress) begin(phase string, total int, l *live) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.total, p.done, p.live, p.bar = phase, total, 0, l, nil
	p.began = time.Now()
	p.printed = p.began
	width, onTerminal := terminal(p.w)
	switch {
	case total > 0 && onTerminal:
		p.width = width
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(phase),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionThrottle(refresh/2), progressbar.OptionSetWidth(barWidth),
			progressbar.OptionUseANSICodes(true), progressbar.OptionClearOnFinish())
	case total > 0:
		fmt.Fprintf(p.w, "%s: %d to go\n", phase, total)
	default:
		fmt.Fprintf(p.w, "%s …\n", phase)
	}
}

// barWidth leaves most of a line to the figures.
const barWidth = 10

// say prints one line between the phases.
func (p *progress) say(format string, args ...any) {
	if p.w != nil {
		fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// add counts one step of the phase.
func (p *progress) add() { p.step(nil) }

// answered counts one answer of the attack.
func (p *progress) answered(r Request) { p.step(&r) }

func (p *progress) step(r *Request) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if r != nil && p.live != nil {
		p.live.add(*r)
	}
	now := time.Now()
	switch {
	case p.bar != nil:
		if p.live != nil && now.Sub(p.printed) > refresh {
			p.printed = now
			// What is left of the line beside bar and count.
			room := p.width - barWidth - 2*len(strconv.Itoa(p.total)) - len(" 100% || (/) ") - 2
			p.bar.Describe(fit(p.live.figures(now), room))
		}
		_ = p.bar.Add(1)
	case now.Sub(p.printed) > every:
		p.printed = now
		if p.live == nil {
			fmt.Fprintf(p.w, "%s: %d of %d\n", p.phase, p.done, p.total)
			return
		}
		fmt.Fprintf(p.w, "%s: %d of %d, %s\n", p.phase, p.done, p.total, strings.Join(p.live.figures(now), ", "))
	}
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
		fmt.Fprintf(p.w, "%s: %d in %.1fs", p.phase, p.done, time.Since(p.began).Seconds())
		if p.live != nil {
			fmt.Fprintf(p.w, ", %s", strings.Join(p.live.outcome(), ", "))
		}
		fmt.Fprintln(p.w)
	}
	p.bar, p.live = nil, nil
}

// live is what the attack's line tells.
type live struct {
	runs    []*run
	answers map[string]int // by kind
	recent  []Request      // of the last second, as they were answered
}

func (l *live) add(r Request) {
	l.answers[answerKind(r)]++
	l.recent = append(l.recent, r)
}

// answerKind is an answer in one word of the contract, or two.
func answerKind(r Request) string {
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

// figures are the most telling first: stock, speed of the last second, answers.
func (l *live) figures(now time.Time) []string {
	l.recent = slices.DeleteFunc(l.recent, func(r Request) bool { return now.Sub(r.End()) > time.Second })
	latency := make([]time.Duration, len(l.recent))
	for i, r := range l.recent {
		latency[i] = r.Latency
	}
	list := append(l.left(), fmt.Sprintf("%d/s", len(l.recent)), "p99 "+human(quantiles(latency).P99))
	return append(list, l.kinds()...)
}

// outcome is what stays to be read after the attack.
func (l *live) outcome() []string { return append(l.left(), l.kinds()...) }

// left is the stock of all sales, where it is known of all.
func (l *live) left() []string {
	sum := 0
	for _, r := range l.runs {
		p, known := r.stock.last()
		if !known {
			return nil
		}
		sum += p.available
	}
	return []string{fmt.Sprintf("%d left", sum)}
}

// kinds counts the answers, the most frequent first.
func (l *live) kinds() []string {
	var list []string
	for _, kind := range slices.SortedFunc(maps.Keys(l.answers), func(a, b string) int {
		if l.answers[a] != l.answers[b] {
			return l.answers[b] - l.answers[a]
		}
		return strings.Compare(a, b)
	}) {
		list = append(list, fmt.Sprintf("%s %d", kind, l.answers[kind]))
	}
	return list
}

// fit is as many of the figures as there is room for: a line that wraps would
// not be overwritten by the next.
func fit(figures []string, room int) string {
	line := ""
	for _, f := range figures {
		longer := strings.TrimPrefix(line+"  "+f, "  ")
		if len(longer) > room {
			break
		}
		line = longer
	}
	return line
}

// terminal says whether w is one, and how wide.
func terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return width, err == nil
}
