package bench

import (
	"encoding/json"
	"errors"
	"io"
)

// A Report is the result of one run.
type Report struct {
	Machine     Machine `json:"machine"`
	Rounds      int     `json:"rounds"`
	Seconds     int     `json:"seconds"`
	Connections int     `json:"connections"`
	Rows        []Row   `json:"rows"`

	failed []error
}

// Machine is what the figures are of.
type Machine struct {
	Cores int    `json:"cores"`
	CPU   string `json:"cpu,omitempty"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	Redis string `json:"redis"`
	MySQL string `json:"mysql"`
	Wrk   string `json:"wrk,omitempty"`
	// CPUTimes tells whether this system says what a process has used.
	CPUTimes bool `json:"cpu_times"`
}

// A Row is one figure beside its counterpart's: medians of several rounds.
type Row struct {
	Item        string  `json:"item"` // of the list of targets
	Name        string  `json:"name"`
	Unit        string  `json:"unit"`
	Ours        float64 `json:"ours"`
	Counterpart float64 `json:"counterpart,omitempty"` // 0 where the target is absolute
	Ratio       float64 `json:"ratio,omitempty"`       // median of the rounds' ratios, not the medians' ratio
	Target      Target  `json:"target"`
	Met         *bool   `json:"met"` // null where it was not measured or can't be judged

	// CPU time per request, ours and the counterpart's.
	CPU            *CPU `json:"cpu_us,omitempty"`
	CounterpartCPU *CPU `json:"counterpart_cpu_us,omitempty"`

	Note  string `json:"note,omitempty"`
	Needs string `json:"needs,omitempty"` // what is missing to measure it
	Error string `json:"error,omitempty"`
}

// CPU is the time that the processes used, in microseconds per request.
type CPU struct {
	App   float64  `json:"app"`
	Redis *float64 `json:"redis,omitempty"` // nil where no store takes part
	MySQL *float64 `json:"mysql,omitempty"`
}

// A Target is what a row is to reach.
type Target struct {
	Bound    float64 `json:"bound"`
	AtLeast  bool    `json:"at_least"` // else at most
	Absolute bool    `json:"absolute"` // of Ours; else of Ratio
}

func atLeast(ratio float64) Target { return Target{Bound: ratio, AtLeast: true} }
func atMost(ours float64) Target   { return Target{Bound: ours, Absolute: true} }

// judge compares the row with its target.
func (r *Row) judge() {
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

// Err is what went wrong while measuring; a missed target is not an error.
func (r *Report) Err() error { return errors.Join(r.failed...) }

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
