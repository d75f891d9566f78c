// Package search finds hyperparameters: a learning rate by a range test, and others by grid
// or random search. [KFold] is cross-validation.
//
//	curve, err := search.RangeTest{}.Run(net, train) // the net stays as it is
//	report.RateCurve(curve)
//
//	results, err := search.Run(search.Grid(map[string][]float64{"rate": {1e-3, 1e-2}, "units": {32, 64}}), "accuracy",
//		func(s search.Settings) (*fit.History, error) {
//			net := fit.New("trial", mlp(s.Int("units")), fit.Config{})
//			defer net.Reset()
//			return net.Fit(train, fit.Train{Epochs: 3, LearningRate: s["rate"], Validation: test, Quiet: true})
//		})
//	fmt.Println(results)
//	report.Parallel(results)
//
// Nets of the same shape are compiled once, whatever their names are. All of them can use a
// data set that is uploaded once.
package search

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/interrupt"
	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
	"gaiden/lib/timing/units"
)

// Settings are the values of one trial, by their names.
type Settings map[string]float64

// Int is a value as an integer.
func (s Settings) Int(name string) int { return int(math.Round(s[name])) }

// String is a line such as: rate 0.01, units 64.
func (s Settings) String() string {
	var l []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		l = append(l, fmt.Sprintf("%s %.4g", name, s[name]))
	}
	return strings.Join(l, ", ")
}

// Grid is all combinations of values.
func Grid(values map[string][]float64) []Settings {
	all := []Settings{{}}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var next []Settings
		for _, s := range all {
			for _, v := range values[name] {
				s := maps.Clone(s)
				s[name] = v
				next = append(next, s)
			}
		}
		all = next
	}
	return all
}

// Range is where values are drawn from.
type Range struct {
	From, To float64
	Log      bool      // even on a logarithmic scale
	Whole    bool      // integers
	Values   []float64 // one of these, in place of a range, such as 32, 64, 128
}

func (x Range) check(name string) error {
	if x.Values != nil && (len(x.Values) == 0 || x.From != 0 || x.To != 0 || x.Log || x.Whole) {
		return fmt.Errorf("search: range of %s has %d Values, and From %g, To %g, Log %t, Whole %t: want Values only, at least one", name, len(x.Values), x.From, x.To, x.Log, x.Whole)
	}
	if x.Whole && math.Ceil(x.From) > math.Floor(x.To) || x.Values == nil && x.From == 0 && x.To == 0 {
		return fmt.Errorf("search: range of %s is %g to %g, Whole %t: want From and To with a number between them, or Values", name, x.From, x.To, x.Whole)
	}
	if !(x.From <= x.To) || math.IsInf(x.To-x.From, 0) || x.Log && x.From <= 0 {
		return fmt.Errorf("search: range of %s is %g to %g: want From no larger than To, and more than 0 with Log", name, x.From, x.To)
	}
	return nil
}

// draw is a number of the range.
func (x Range) draw(r *rand.Rand) float64 {
	if x.Values != nil {
		return x.Values[r.IntN(len(x.Values))]
	}
	v := x.From + r.Float64()*(x.To-x.From)
	if x.Log {
		v = x.From * math.Pow(x.To/x.From, r.Float64())
	}
	if x.Whole {
		v = min(max(math.Round(v), math.Ceil(x.From)), math.Floor(x.To))
	}
	return v
}

// Random is n combinations of values that are drawn from ranges, or from lists; equal for one seed.
func Random(n int, seed int64, ranges map[string]Range) ([]Settings, error) {
	r := rand.New(rand.NewPCG(uint64(seed), 0x736561726368))
	names := slices.Sorted(maps.Keys(ranges))
	if n < 1 || len(names) == 0 {
		return nil, fmt.Errorf("search: %d settings of %d ranges: want 1 or more of each", n, len(names))
	}
	for _, name := range names {
		if err := ranges[name].check(name); err != nil {
			return nil, err
		}
	}
	var all []Settings
	for range n {
		s := Settings{}
		for _, name := range names {
			s[name] = ranges[name].draw(r)
		}
		all = append(all, s)
	}
	return all, nil
}

// Trial is a training with some settings.
type Trial struct {
	Settings
	Value   float64 // the best result of its epochs; NaN where it failed
	Epoch   int     // that of the best result
	History *fit.History
	Err     error
	Elapsed time.Duration
}

// Results are trials, the best first.
type Results struct {
	Monitor string
	Trials  []Trial
	Stopped bool // the cell was stopped before all of them
}

// Run trains with one of the settings after the other. Of each it takes the best (validation)
// result by name: the loss, the accuracy or a metric. A larger one is better for all but the
// loss and the names in smaller. A trial that fails or panics is in the results with its error,
// and the others continue.
func Run(all []Settings, monitor string, train func(Settings) (*fit.History, error), smaller ...string) (*Results, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("search: no settings: want some, such as of search.Grid")
	}
	if train == nil {
		return nil, errors.New("search: train is nil: want a function that trains with some settings")
	}
	r := &Results{Monitor: monitor}
	minimize := append([]string{"loss", "mae", "rmse", "perplexity"}, smaller...)
	down := slices.Contains(minimize, monitor)
	for _, s := range all {
		began := time.Now()
		h, err := tried(train, maps.Clone(s))
		t := Trial{Settings: s, Value: math.NaN(), History: h, Err: err, Elapsed: time.Since(began)}
		if h != nil && (err == nil || errors.Is(err, context.Canceled)) {
			for _, e := range h.Epochs {
				score := e.Train
				if e.Validation != nil {
					score = *e.Validation
				}
				v := score.Metric(monitor)
				if math.IsNaN(v) {
					continue
				}
				if math.IsNaN(t.Value) || down && v < t.Value || !down && v > t.Value {
					t.Value, t.Epoch = v, e.Number
				}
			}
			if err == nil && len(h.Epochs) > 0 && math.IsNaN(h.Last().Train.Metric(monitor)) && math.IsNaN(t.Value) {
				known := h.Last().Train.Names()
				t.Err = fmt.Errorf("search: its history has no %s that is a number: want one of %q, or another metric in Config.Metrics", monitor, known)
				if len(r.Trials) == 0 && !slices.Contains(known, monitor) { // nor will the others have it
					return nil, fmt.Errorf("search: the first trial has no result %q: want one of %q, or another metric in Config.Metrics", monitor, known)
				}
			}
		}
		r.Trials = append(r.Trials, t)
		if stopped(h, err) {
			r.Stopped = true
			break
		}
	}
	slices.SortStableFunc(r.Trials, func(a, b Trial) int {
		switch na, nb := math.IsNaN(a.Value), math.IsNaN(b.Value); {
		case na && nb:
			return 0
		case na:
			return 1
		case nb:
			return -1
		case a.Value == b.Value:
			return 0
		case (a.Value < b.Value) == down:
			return -1
		}
		return 1
	})
	return r, nil
}

// stopped says whether a training ended because its cell was stopped.
func stopped(h *fit.History, err error) bool {
	return interrupt.Context().Err() != nil || errors.Is(err, context.Canceled) || h != nil && strings.Contains(h.Stopped, context.Canceled.Error())
}

// tried is train. A panic in it is its error, so that the results of others are not lost.
func tried[T any](train func(T) (*fit.History, error), with T) (h *fit.History, err error) {
	defer func() {
		if p := recover(); p != nil {
			h, err = nil, result.Panicked(p)
		}
	}()
	return train(with)
}

// Best is the trial with the best result; its Value is NaN where all failed.
func (r *Results) Best() Trial { return r.Trials[0] }

// Names are those of the settings.
func (r *Results) Names() []string {
	names := map[string]bool{}
	for _, t := range r.Trials {
		for name := range t.Settings {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// HTML is the same, in lines that a narrow page does not break.
func (r *Results) HTML() string {
	return `<pre style="white-space:pre;margin:0">` + html.EscapeString(r.String()) + "</pre>"
}

// String is a table of the trials, the best first.
func (r *Results) String() string {
	names := r.Names()
	head := append(append([]string{"rank"}, names...), r.Monitor, "epoch", "time")
	rows := [][]string{head}
	for i, t := range r.Trials {
		row := []string{fmt.Sprint(i + 1)}
		for _, name := range names {
			cell := ""
			if v, is := t.Settings[name]; is {
				cell = fmt.Sprintf("%.4g", v)
			}
			row = append(row, cell)
		}
		value := fmt.Sprintf("%.5g", t.Value)
		if t.Err != nil {
			value = "failed: " + strings.ReplaceAll(t.Err.Error(), "\n", " ")
		}
		rows = append(rows, append(row, value, fmt.Sprint(t.Epoch), units.Seconds(t.Elapsed.Seconds())))
	}
	width := make([]int, len(head))
	for _, row := range rows {
		for i, c := range row {
			width[i] = max(width[i], min(len(c), 40))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, c := range row {
			line += fmt.Sprintf("%-*s  ", width[i], c)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if r.Stopped {
		b.WriteString("stopped before all settings were tried\n")
	}
	return b.String()
}
