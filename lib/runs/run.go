// Package runs keeps what trainings were and how they went, in folders that other tools read.
//
// A training with a Log is a run:
//
//	history, err := net.Fit(train, fit.Train{Epochs: 5, Log: "runs/first"})
//
// Its folder has
//
//   - run.json: the net, settings, code, notebook and machine, and how it ended;
//   - metrics.jsonl: a line of JSON for each step (at most 10,000 of a run: each is then the
//     mean of several) and for each epoch, with its validation;
//   - epochs.csv: a row for each epoch;
//   - train and validation: event files of TensorBoard (tensorboard --logdir runs).
//
// A training that continues one of the folder, from the step where that ended, is added to
// it; any other gets a folder of its own, such as runs/first-2. Nothing is overwritten.
//
// [List] reads all runs below a folder, and report.Runs or the magic %runs compares them.
// [Save] makes a run of a History, such as that of a job.
package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The states of a run; one with a reason has it after a colon: "failed: loss NaN".
const (
	Running = "running"
	Done    = "done"
	Stopped = "stopped"
	Failed  = "failed"
	Killed  = "killed" // its process ended without a word
)

// A Run is a training and how it went.
type Run struct {
	Name     string            `json:"name"` // the path of its folder, as it was given
	Net      string            `json:"net"`
	State    string            `json:"state"`
	Began    time.Time         `json:"began"`
	Ended    time.Time         `json:"ended,omitzero"`
	From     int               `json:"from"` // steps that the net had been trained before
	To       int               `json:"to"`   // and after
	Results  map[string]Number `json:"results,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
	Layers   []Layer           `json:"layers,omitempty"`
	Code     string            `json:"code,omitempty"` // of the cell
	Notebook string            `json:"notebook,omitempty"`
	Machine  string            `json:"machine,omitempty"`

	Steps  []Step  `json:"-"`
	Epochs []Epoch `json:"-"`
}

// A Layer of the net.
type Layer struct{ Name, Kind string }

// A Step is the result of some steps, up to one that is counted from the net's first.
type Step struct {
	Step     int    `json:"step"`
	Loss     Number `json:"loss"`
	Accuracy Number `json:"accuracy,omitzero"` // 0 also without labels
}

// An Epoch is the results of an epoch, by name.
type Epoch struct {
	Epoch      int               `json:"epoch"`
	Step       int               `json:"step"`
	Seconds    float64           `json:"seconds"` // since the run began
	Train      map[string]Number `json:"train"`
	Validation map[string]Number `json:"validation,omitempty"`
}

// A Number is null in JSON where it is not finite, and NaN when that is read.
type Number float64

// MarshalJSON writes null for what JSON cannot say.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	v := math.NaN()
	if string(b) != "null" {
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
	}
	*n = Number(v)
	return nil
}

const (
	runFile     = "run.json"
	metricsFile = "metrics.jsonl"
	epochsFile  = "epochs.csv"
)

// Read reads the run of a folder.
func Read(folder string) (*Run, error) {
	data, err := os.ReadFile(filepath.Join(folder, runFile))
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	r := &Run{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("runs: %s: %w", filepath.Join(folder, runFile), err)
	}
	err = r.readMetrics(filepath.Join(folder, metricsFile))
	if r.State == Running { // what run.json does not say yet, or never will
		if !written(filepath.Join(folder, metricsFile)) {
			r.State = Killed
		}
		if n := len(r.Epochs); n > 0 {
			r.To, r.Results = max(r.To, r.Epochs[n-1].Step), results(r.Epochs[n-1])
		}
		if n := len(r.Steps); n > 0 {
			r.To = max(r.To, r.Steps[n-1].Step)
		}
	}
	return r, err
}

// written says whether some process, in this container or another, has a run's metrics open:
// it holds a lock. Where a file system has no locks it may be.
func written(metrics string) bool {
	f, err := os.Open(metrics)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// readMetrics reads lines of JSON. The last one may be torn.
func (r *Run) readMetrics(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("runs: %w", err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var e Epoch
		var s Step
		err := json.Unmarshal(lines.Bytes(), &e)
		switch {
		case err != nil:
		case e.Epoch > 0:
			r.Epochs = append(r.Epochs, e)
		default:
			if err = json.Unmarshal(lines.Bytes(), &s); err == nil {
				r.Steps = append(r.Steps, s)
			}
		}
		if err != nil {
			return fmt.Errorf("runs: %s:%d: %w", path, n, err)
		}
	}
	return lines.Err()
}

// List reads all runs below a folder, the oldest first. The error is of those that cannot be
// read; the others are returned with it.
func List(folder string) (all []*Run, err error) {
	failed := filepath.WalkDir(folder, func(path string, d fs.DirEntry, e error) error {
		switch {
		case e != nil:
			err = errors.Join(err, e)
			return nil
		case d.IsDir() && path != folder && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.Name() != runFile || d.IsDir():
			return nil
		}
		r, e := Read(filepath.Dir(path))
		if err = errors.Join(err, e); e == nil {
			if name, e := filepath.Rel(folder, filepath.Dir(path)); e == nil && name != "." {
				r.Name = name
			}
			all = append(all, r)
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b *Run) int { return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.Name, b.Name)) })
	return all, errors.Join(err, failed)
}

// Curve is a result over the steps of the net: "loss" and "accuracy" of the steps, other
// metrics of the epochs, "validation/loss" and the like.
func (r *Run) Curve(name string) (steps, values []float64) {
	add := func(step int, v Number) { steps, values = append(steps, float64(step)), append(values, float64(v)) }
	rest, validated := strings.CutPrefix(name, validation)
	if !validated && (name == "loss" || name == "accuracy") && len(r.Steps) > 0 {
		if name == "accuracy" && !slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Accuracy != 0 }) {
			return nil, nil // without labels
		}
		for _, s := range r.Steps {
			v := s.Loss
			if name == "accuracy" {
				v = s.Accuracy
			}
			add(s.Step, v)
		}
		return steps, values
	}
	for _, e := range r.Epochs {
		of := e.Train
		if validated {
			of = e.Validation
		}
		if v, has := of[rest]; has {
			add(e.Step, v)
		}
	}
	return steps, values
}

const validation = "validation/"
