package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/profile"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// A Trial is a net that [Devices] trains on one device after the other.
type Trial struct {
	// Net is the net to compare. It is not changed: Devices trains copies with the
	// same seed, and deletes them.
	Net *fit.Net
	// Config is the configuration of Net. Devices sets its Session and Devices.
	Config fit.Config

	Train, Test fit.Data
	// Data is the name of the data, for the title.
	Data string

	// Fit says how long to train. Leave its Validation empty: Devices sets it to
	// Test.
	Fit fit.Train
	// CPUEpochs is the number of epochs on the CPU of a machine with a GPU, where
	// Fit.Epochs would take too long; 0 means Fit.Epochs. The total time is then an
	// estimate, marked "~". Without a GPU it has no effect.
	CPUEpochs int
	// NoCPU skips the CPU on a machine with a GPU.
	NoCPU bool

	// Most is the maximum number of GPUs, reached by doubling; 0 means all.
	Most int
	// Forced adds a run on several GPUs even if one GPU was found to be faster.
	Forced bool
	// Phases also measures the phases of a step on each device.
	Phases bool
}

// DeviceRuns is the result of [Devices].
type DeviceRuns struct {
	Title string
	Runs  []DeviceRun
	Notes []string // what was skipped, and why
}

// DeviceRun is the training on one device, or on several of one kind.
type DeviceRun struct {
	Where   string // "CPU", "GPU", "2 GPUs", "2 GPUs, forced"
	Kind    string // name of the device, from the plugin
	Epochs  int    // requested; the history may have fewer
	History *fit.History
	Phases  *profile.Phases // nil if not measured
}

// Devices trains a net on the CPU, on one GPU and on several GPUs, as far as this
// machine has them, and compares time and accuracy. On a machine with a GPU, it
// starts a temporary session for the CPU.
//
//	runs, err := report.Devices(ctx, report.Trial{Net: net, Train: …, Test: …, Fit: fit.Train{Epochs: 20, Batch: 100}})
//	report.Show(runs)
//
// A missing device is a note, not an error. When ctx is done, or the cell is stopped,
// Devices returns the results so far together with an error. A Trial without a net,
// or with settings that have no effect, is an error before training starts.
func Devices(ctx context.Context, t Trial) (*DeviceRuns, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("report: devices: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(session.Context(), stop)()
	s, err := t.Net.Session()
	if err != nil {
		return nil, err
	}
	r := &DeviceRuns{Title: fmt.Sprintf("%s on %s, batches of %d", t.Net.Model().Name, cmp.Or(t.Data, "data"), t.Fit.Batch)}
	w := s.Welcome()
	if w.Platform == "cpu" {
		t.CPUEpochs = 0 // there is no GPU to compare with
		if err := r.add(ctx, t, s, "CPU", 1, false); err != nil {
			return r, err
		}
		r.Notes = append(r.Notes, "GPU: left out, this session has none")
		return r, nil
	}
	if !t.NoCPU {
		cpu, end, err := cpuSession()
		if err != nil {
			r.Notes = append(r.Notes, "CPU: left out: "+err.Error())
		} else {
			err := r.add(ctx, t, cpu, "CPU", 1, false)
			end()
			if err != nil {
				return r, err
			}
		}
	}
	most := len(w.Devices)
	if t.Most > 0 {
		most = min(most, t.Most)
	}
	for n := 1; n <= most; n *= 2 {
		where := "GPU"
		if n > 1 {
			where = fmt.Sprintf("%d GPUs", n)
		}
		if err := r.add(ctx, t, s, where, n, false); err != nil {
			return r, err
		}
		if last := r.Runs[len(r.Runs)-1]; t.Forced && last.History.Devices < n {
			if err := r.add(ctx, t, s, where+", forced", n, true); err != nil {
				return r, err
			}
		}
	}
	if most == 1 {
		r.Notes = append(r.Notes, "2 GPUs: left out, this session has one")
	}
	return r, nil
}

// sessionBinary is the program that serves the session; tests have another.
var sessionBinary = session.Binary

// cpuSession starts a session on the CPU, separate from the notebook's, and connects to it.
func cpuSession() (s *session.Session, end func(), err error) {
	bin, err := sessionBinary()
	if err != nil {
		return nil, nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, nil, err
	}
	plugin := os.Getenv("GAIDEN_PLUGIN")
	if strings.Contains(filepath.Base(plugin), "cuda") {
		plugin = "" // the one in the cache
	}
	p, err := session.StartPrivate(bin, plugin, "GAIDEN_DEVICE=cpu", "XDG_CACHE_HOME="+cache)
	if err != nil {
		return nil, nil, fmt.Errorf("report: a session for the CPU: %w", err)
	}
	if s, err = p.Open("report", "report"); err != nil {
		p.Close()
		return nil, nil, err
	}
	return s, func() { s.Close(); p.Close() }, nil
}

// check says which setting means nothing, or has no use.
func (t Trial) check() error {
	switch {
	case t.Net == nil:
		return errors.New("got no net, want Trial.Net, such as fit.New(…)")
	case t.Fit.Validation != nil:
		return fmt.Errorf("got Fit.Validation %s, which is in one session only: want the examples as Trial.Test", t.Fit.Validation.Name)
	case t.CPUEpochs < 0:
		return fmt.Errorf("CPUEpochs is %d: want 1 or more, or 0 for Fit's", t.CPUEpochs)
	case t.CPUEpochs > 0 && t.NoCPU:
		return fmt.Errorf("CPUEpochs is %d, and NoCPU leaves it without use: want one of them", t.CPUEpochs)
	case t.Most < 0:
		return fmt.Errorf("Most is %d: want 1 or more, or 0 for all", t.Most)
	case t.Phases && t.Fit.Batch == 0:
		return errors.New("Phases is set without Fit.Batch: want how many examples a step has")
	}
	return nil
}

// add trains a copy of the net on some devices of a session.
func (r *DeviceRuns) add(ctx context.Context, t Trial, s *session.Session, where string, devices int, force bool) (err error) {
	c := t.Config
	c.Session, c.Devices, c.AllDevices = s, devices, force
	name := t.Net.Name() + "-" + strings.NewReplacer(", ", "-", " ", "-").Replace(strings.ToLower(where))
	n, err := fit.Attach(s, name, t.Net.Model(), c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Reset()) }()
	if err := n.Reset(); err != nil { // an earlier trial may have been stopped
		return err
	}
	data, err := n.Upload(t.Net.Name()+"-trial", t.Train)
	if err != nil {
		return err
	}
	f := t.Fit
	if t.Test.X != nil {
		if f.Validation, err = n.Upload(t.Net.Name()+"-trial-test", t.Test); err != nil {
			return err
		}
	}
	run := DeviceRun{Where: where, Epochs: max(1, f.Epochs)}
	if s.Welcome().Platform == "cpu" && t.CPUEpochs > 0 {
		f.Epochs = min(run.Epochs, t.CPUEpochs)
	}
	if d := s.Welcome().Devices; len(d) > 0 {
		run.Kind = d[0].Kind
	}
	if run.History, err = n.WithContext(ctx).Fit(data, f); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	r.Runs = append(r.Runs, run)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if run.History.Stopped != "" {
		r.Notes = append(r.Notes, where+": stopped: "+run.History.Stopped)
	}
	if run.History.Note != "" {
		r.Notes = append(r.Notes, where+": "+run.History.Note)
	}
	if t.Phases && !r.measured(run.History.Devices) {
		p, err := profile.Measure(ctx, n, data, profile.Options{Batch: f.Batch / run.History.Devices, Shallow: true, NoErrors: true, Budget: 100 * time.Millisecond})
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		r.Runs[len(r.Runs)-1].Phases = p
	}
	return nil
}

// measured says whether a run before the last one has the phases of a step on as
// many devices of the same kind: they are the same programs.
func (r *DeviceRuns) measured(devices int) bool {
	for _, run := range r.Runs[:len(r.Runs)-1] {
		if run.Phases != nil && run.History.Devices == devices && run.Kind == r.Runs[len(r.Runs)-1].Kind {
			return true
		}
	}
	return false
}

// Seconds returns the time of all epochs without compiling, in seconds, and whether
// it is an estimate from fewer epochs.
func (d DeviceRun) Seconds() (seconds float64, estimated bool) {
	if d.History == nil || len(d.History.Epochs) == 0 {
		return math.NaN(), false
	}
	last := d.History.Last()
	seconds = (last.Elapsed - d.History.Compile).Seconds()
	if last.Number < d.Epochs {
		return seconds / float64(last.Number) * float64(d.Epochs), true
	}
	return seconds, false
}

// Run returns the run with this name, such as "2 GPUs".
func (r *DeviceRuns) Run(where string) (DeviceRun, bool) {
	for _, run := range r.Runs {
		if run.Where == where {
			return run, true
		}
	}
	return DeviceRun{}, false
}

// Table returns the metrics of each device in the columns of Chainer, and the time of
// compiling.
func (r *DeviceRuns) Table() Table {
	t := Table{Title: r.Title, Head: []string{"", "epoch", "main/loss", "validation/main/loss", "main/accuracy", "validation/main/accuracy", "elapsed_time", "compiling", "against the first"}, Notes: r.Notes}
	first := math.NaN()
	for i, run := range r.Runs {
		if run.History == nil || len(run.History.Epochs) == 0 {
			t.Add(run.Where, 0)
			continue
		}
		e := run.History.Last()
		row := []any{run.Where, e.Number, e.Train.Loss, "", "", "", "", units.Seconds(run.History.Compile.Seconds()), ""}
		if e.Train.Labels {
			row[4] = e.Train.Accuracy()
		}
		if v := e.Validation; v != nil {
			row[3] = v.Loss
			if v.Labels {
				row[5] = v.Accuracy()
			}
		}
		seconds, estimated := run.Seconds()
		row[6] = fmt.Sprintf("%.4g s", seconds)
		if estimated {
			row[6] = fmt.Sprintf("~%.4g s for %d epochs", seconds, run.Epochs)
		}
		if i == 0 {
			first = seconds
		} else if finite(first / seconds) {
			row[8] = fmt.Sprintf("%.3g×", first/seconds)
		}
		t.Add(row...)
	}
	t.Notes = append(t.Notes, "elapsed_time is that of all epochs with their validation; compiling is apart.")
	return t
}

// Plot returns the error of each device over time, in seconds.
func (r *DeviceRuns) Plot() Plot {
	p := Plot{Title: r.Title, X: "time (s)", Y: "error rate on test images", LogX: true}
	for _, run := range r.Runs {
		s := Series{Name: run.Where}
		if run.History == nil {
			continue
		}
		for _, e := range run.History.Epochs {
			score := e.Train
			if e.Validation != nil {
				score = *e.Validation
			} else {
				p.Y = "error rate while training"
			}
			if !score.Labels {
				p.Y = "loss"
			}
			s.X = append(s.X, (e.Elapsed - run.History.Compile).Seconds())
			s.Y = append(s.Y, wrong(score))
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// PhaseTable compares the phases of a step, one column per kind and number of
// devices. It has no rows if phases were not measured.
func (r *DeviceRuns) PhaseTable() Table {
	t := Table{Title: "phases of a step", Head: []string{""}}
	rows := map[string][]string{}
	var names []string
	measured := slices.DeleteFunc(slices.Clone(r.Runs), func(run DeviceRun) bool { return run.Phases == nil })
	for column, run := range measured {
		t.Head = append(t.Head, run.Where)
		lines := append([]profile.Line{}, run.Phases.Phases...)
		for i, l := range append(lines, run.Phases.Chain, run.Phases.Epoch) {
			name := l.Phase
			switch i {
			case len(lines):
				name = "these five, one after the other"
			case len(lines) + 1:
				name = "a step of the epoch's program"
			}
			if rows[name] == nil {
				rows[name] = make([]string, len(measured))
				names = append(names, name)
			}
			if l.Time.N() > 0 {
				rows[name][column] = units.Seconds(l.Time.Median())
			}
		}
	}
	for _, name := range names {
		t.Rows = append(t.Rows, append([]string{name}, rows[name]...))
	}
	return t
}

// String returns the tables and the plot as text.
func (r *DeviceRuns) String() string { return r.parts().String() }

// HTML returns the tables and the plot.
func (r *DeviceRuns) HTML() string { return r.parts().HTML() }

func (r *DeviceRuns) parts() column {
	all := column{r.Table(), r.Plot()}
	if p := r.PhaseTable(); len(p.Rows) > 0 {
		all = append(all, p)
	}
	return all
}
