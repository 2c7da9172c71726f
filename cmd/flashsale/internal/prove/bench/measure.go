package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"flashsale/loadtest/report"
)

// A Row compares one figure with that of its counterpart. Figures are medians of
// several rounds.
type Row struct {
	Item        string  `json:"item"` // number in the list of targets
	Name        string  `json:"name"`
	Unit        string  `json:"unit"`
	Ours        float64 `json:"ours"`
	Counterpart float64 `json:"counterpart,omitempty"` // 0 if the target is absolute
	Ratio       float64 `json:"ratio,omitempty"`       // median of the ratios of the rounds
	Target      Target  `json:"target"`                // zero if there is no target
	Met         *bool   `json:"met"`                   // null if the row was not measured or has no target

	// CPU time per request, for this project and for the counterpart.
	CPU            *CPU `json:"cpu_us,omitempty"`
	CounterpartCPU *CPU `json:"counterpart_cpu_us,omitempty"`

	Note  string `json:"note,omitempty"`
	Needs string `json:"needs,omitempty"` // program that is not installed
	Error string `json:"error,omitempty"`

	ofCPU bool // Ours is the CPU time of the benchmark in the row above
}

// CPU is the CPU time of the processes, in microseconds per request.
type CPU struct {
	App   float64  `json:"app"`
	Redis *float64 `json:"redis,omitempty"` // nil if Redis is not involved
	MySQL *float64 `json:"mysql,omitempty"` // nil if MySQL is not involved
}

// A Target is the value that a row must reach or must not exceed.
type Target struct {
	Bound    float64 `json:"bound"`
	AtLeast  bool    `json:"at_least"` // Bound is the lowest value allowed, otherwise the highest
	Absolute bool    `json:"absolute"` // Bound applies to Row.Ours, otherwise to Row.Ratio
}

func atLeast(ratio float64) Target { return Target{Bound: ratio, AtLeast: true} }
func atMost(ours float64) Target   { return Target{Bound: ours, Absolute: true} }

// set fills in a row that has no counterpart.
func (r *Row) set(ours float64) {
	r.Ours = ours
	r.judge()
}

func (r *Row) judge() {
	if r.Target == (Target{}) {
		return
	}
	value := r.Ratio
	if r.Target.Absolute {
		value = r.Ours
	}
	met := value <= r.Target.Bound
	if r.Target.AtLeast {
		met = value >= r.Target.Bound
	}
	r.Met = &met
}

// A sample is one measurement of one side.
type sample struct {
	value float64 // figure in the row's unit
	cpu   cost
	note  string // remark for readers of the row
}

type measure func(ctx context.Context) (sample, error)

// alternate measures all sides in every round, and starts each round with another
// side. A drift of the machine, such as a disk that fills up, then affects all sides.
// alternate returns the samples of each side by round. The first side is ours.
func (l *bench) alternate(ctx context.Context, unit string, sides ...measure) ([][]sample, error) {
	samples := make([][]sample, len(sides))
	for round := range l.cfg.Rounds {
		for i := range sides {
			i = (i + round) % len(sides)
			s, err := sides[i](ctx)
			if err != nil {
				return nil, fmt.Errorf("measure round %d: %w", round+1, err)
			}
			samples[i] = append(samples[i], s)
		}
		var figures []string
		for _, of := range samples {
			figures = append(figures, report.Figure(of[round].value))
		}
		line := fmt.Sprintf("  round %d of %d: ours %s", round+1, l.cfg.Rounds, figures[0])
		if len(figures) > 1 {
			line += ", counterpart " + strings.Join(figures[1:], " and ")
		}
		l.Progressf("%s %s", line, unit)
	}
	return samples, nil
}

// contest warms all sides up, measures them in turn, and fills the rows. Row i
// compares the first side with theirs[i]; the last counterpart fills further rows.
func (l *bench) contest(ctx context.Context, rows []Row, ours measure, theirs ...measure) error {
	sides := append([]measure{ours}, theirs...)
	samples, err := l.warmed(ctx, rows[0].Unit, sides...)
	if err != nil {
		return err
	}
	for i := range rows {
		our, their := samples[0], samples[min(i+1, len(theirs))]
		if rows[i].ofCPU {
			our, their = cpuOf(our), cpuOf(their)
		}
		if our == nil || their == nil {
			rows[i].Note = "CPU times are known on Linux only"
			continue
		}
		rows[i].fill(our, their)
	}
	return nil
}

// warmed warms each side up, and then calls alternate.
func (l *bench) warmed(ctx context.Context, unit string, sides ...measure) ([][]sample, error) {
	if err := l.warm(ctx, sides...); err != nil {
		return nil, err
	}
	return l.alternate(ctx, unit, sides...)
}

// warm runs each side for one second and discards the result. Connections are then
// open, tokens are verified and heaps have grown.
func (l *bench) warm(ctx context.Context, sides ...measure) error {
	seconds := l.cfg.Seconds
	l.cfg.Seconds = 1
	defer func() { l.cfg.Seconds = seconds }()
	for _, side := range sides {
		if _, err := side(ctx); err != nil {
			return fmt.Errorf("warm up before the first round: %w", err)
		}
	}
	return nil
}

// cpuOf returns the CPU times of all processes as samples. It returns nil if a sample
// has no CPU time.
func cpuOf(samples []sample) []sample {
	of := make([]sample, len(samples))
	for i, s := range samples {
		if s.cpu == nil {
			return nil
		}
		for _, us := range s.cpu {
			if !math.IsNaN(us) { // NaN: the process is not involved
				of[i].value += us
			}
		}
	}
	return of
}

// fill sets the figures of a row from samples of the same rounds. theirs is nil if
// the row has no counterpart.
func (r *Row) fill(ours, theirs []sample) {
	value := func(s sample) float64 { return s.value }
	r.Ours, r.CPU = medianOf(ours, value), medianCPU(ours)
	if theirs != nil {
		ratios := make([]float64, len(ours))
		for i := range ratios {
			ratios[i] = ours[i].value / theirs[i].value
		}
		r.Counterpart, r.Ratio, r.CounterpartCPU = medianOf(theirs, value), median(ratios), medianCPU(theirs)
	}
	for _, s := range slices.Concat(ours, theirs) {
		if s.note != "" && r.Note == "" {
			r.Note = s.note
		}
	}
	r.judge()
}

// median returns the median of at least one value. For an even number of values it is
// the mean of the middle two.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// medianOf returns the median of one figure over the samples.
func medianOf(samples []sample, figure func(sample) float64) float64 {
	v := make([]float64, len(samples))
	for i, s := range samples {
		v[i] = figure(s)
	}
	return median(v)
}

// medianCPU returns nil if a sample has no CPU time.
func medianCPU(samples []sample) *CPU {
	if slices.ContainsFunc(samples, func(s sample) bool { return s.cpu == nil }) {
		return nil
	}
	var middle [3]float64
	for i := range middle {
		middle[i] = medianOf(samples, func(s sample) float64 { return s.cpu[i] })
	}
	known := func(us float64) *float64 {
		if math.IsNaN(us) {
			return nil
		}
		return &us
	}
	cpu := &CPU{Redis: known(middle[1]), MySQL: known(middle[2])}
	if app := known(middle[0]); app != nil {
		cpu.App = *app
	}
	return cpu
}

// A meter holds the process ids of the app, Redis and MySQL, in this order. An id of
// 0 stands for a process that is not involved.
type meter [3]int

// A cost contains the CPU time of each process in microseconds, or NaN if the process
// is not involved. It is nil on systems that do not report CPU time.
type cost []float64

// read returns the CPU time used so far, in user and kernel mode, by all threads.
func (m meter) read() cost {
	used := cost{math.NaN(), math.NaN(), math.NaN()}
	for i, pid := range m {
		if pid == 0 {
			continue
		}
		process, err := procfs.NewProc(pid)
		if err != nil {
			return nil
		}
		stat, err := process.Stat()
		if err != nil {
			return nil
		}
		used[i] = stat.CPUTime() * 1e6
	}
	return used
}

// start begins a measurement. The returned function ends it, and divides the CPU time
// by the number of requests.
func (m meter) start() func(requests float64) cost {
	before := m.read()
	return func(requests float64) cost {
		used := m.read()
		if before == nil || used == nil || requests == 0 {
			return nil
		}
		for i := range used {
			used[i] = (used[i] - before[i]) / requests
		}
		return used
	}
}
