package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"gaiden/lib/runs"
	"gaiden/lib/timing/units"
)

// Runs compares trainings that were logged: a table, with the settings in which they differ,
// and a result of all over their steps.
//
//	report.Runs{Runs: must(runs.List("runs")), Curve: "validation/loss"}
type Runs struct {
	Runs  []*runs.Run
	Curve string // the result that is drawn; default: loss
}

// String returns the table, and each curve as a row.
func (r Runs) String() string { return r.column().String() }

// HTML returns the table and the plot.
func (r Runs) HTML() string { return r.column().HTML() }

func (r Runs) column() column {
	all := column{r.table()}
	p := r.plot()
	if names := r.Curves(); len(r.Runs) > 0 && len(p.Series) == 0 && !slices.Contains(names, p.Title) {
		p.Notes = []string{noResult(p.Title, names)}
	}
	if len(p.Series)+len(p.Notes) > 0 {
		all = append(all, p)
	}
	return all
}

func (r Runs) table() Table {
	if len(r.Runs) == 0 {
		return Table{Notes: []string{`no runs: fit.Train{Log: "runs/first"} keeps one`}}
	}
	results, settings := map[string]bool{}, map[string]map[string]bool{}
	for _, run := range r.Runs {
		for name := range run.Results {
			results[name] = true
		}
		for name := range run.Settings {
			settings[name] = map[string]bool{}
		}
	}
	for name, values := range settings {
		for _, run := range r.Runs {
			if len(run.Settings) > 0 {
				values[run.Settings[name]] = true
			}
		}
	}
	maps.DeleteFunc(settings, func(_ string, values map[string]bool) bool { return len(values) < 2 }) // what is the same of all says nothing
	names, differ := slices.Sorted(maps.Keys(results)), slices.Sorted(maps.Keys(settings))
	t := Table{Head: slices.Concat([]string{"run", "net", "state", "epochs", "steps", "time"}, names, differ, []string{"started"})}
	for _, run := range r.Runs {
		took := ""
		if !run.Ended.IsZero() {
			took = units.Clock(max(0, run.Ended.Sub(run.Began)).Seconds()) // the clock may have been set back
		}
		row := []any{run.Name, run.Net, shorten(run.State, 60), len(run.Epochs), run.To - run.From, took}
		for _, name := range names {
			if v, has := run.Results[name]; has {
				row = append(row, float64(v))
			} else {
				row = append(row, "")
			}
		}
		for _, name := range differ {
			row = append(row, shorten(run.Settings[name], 40))
		}
		t.Add(append(row, run.Began.Local().Format(time.DateTime))...)
	}
	return t
}

func (r Runs) plot() Plot {
	name := cmp.Or(r.Curve, "loss")
	p := Plot{Title: name, X: "step", Y: name}
	for _, run := range r.Runs {
		if x, y := run.Curve(name); len(x) > 0 {
			p.Series = append(p.Series, means(Series{Name: run.Name, X: x, Y: y}))
		}
	}
	return p
}

// means is a curve with few enough points that several can be told apart: each is the mean of
// some.
func means(s Series) Series {
	const most = 100
	each := (len(s.Y) + most - 1) / most
	if each <= 1 {
		return s
	}
	few := Series{Name: s.Name}
	for i := 0; i < len(s.Y); i += each {
		end, sum := min(i+each, len(s.Y)), 0.0
		for _, y := range s.Y[i:end] {
			sum += y
		}
		few.X, few.Y = append(few.X, s.X[end-1]), append(few.Y, sum/float64(end-i))
	}
	return few
}

// Curves are the names of the results that some of the runs have.
func (r Runs) Curves() []string {
	all := map[string]bool{"loss": true}
	for _, run := range r.Runs {
		for name := range run.Results {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// RunSheet is all that is known of a run.
type RunSheet struct{ *runs.Run }

func (r RunSheet) table() Table {
	t := Table{Title: r.Name, Head: []string{"", ""}}
	add := func(name, value string) {
		if value != "" {
			t.Rows = append(t.Rows, []string{name, value})
		}
	}
	add("net", r.Net)
	add("state", r.State)
	add("started", r.Began.Local().Format(time.DateTime))
	add("notebook", r.Notebook)
	add("machine", strings.TrimSpace(r.Machine))
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		add(name, r.Settings[name])
	}
	return t
}

func (r RunSheet) curve() Runs { return Runs{Runs: []*runs.Run{r.Run}} }

// String returns facts, results and code.
func (r RunSheet) String() string {
	return r.table().String() + "\n\n" + r.curve().String() + "\n\n" + r.Code
}

// HTML returns the same with the curve of the loss.
func (r RunSheet) HTML() string {
	return r.table().HTML() + r.curve().HTML() + "<pre>" + escape(r.Code) + "</pre>"
}
