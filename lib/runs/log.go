package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gaiden/lib/engine/files"
	"gaiden/lib/fit/result"
	"gaiden/lib/tensorboard"
)

// A Log writes a run. Its methods are called by one goroutine.
type Log struct {
	Folder string // where it is
	Note   string // why that is not where it was to be; "" if it is

	run               Run
	metrics, rows     *os.File
	lines             bytes.Buffer // of metrics, to be written
	table             bytes.Buffer
	train, validation *tensorboard.Writer // validation is nil until there is one
	columns           []string            // of epochs.csv
	epochs            int                 // written
	every             int                 // steps of a line
	points            int                 // lines of steps
	part              part                // of the next line
	flushed           time.Time
	err               error // the first one
}

// part is steps that are not written yet.
type part struct {
	taken          int // steps of the history, all in all
	steps          int
	loss           float64
	right, answers int
}

const (
	mostPoints = 10_000
	flushEvery = time.Second
)

// Begin begins to log a run in a folder, or next to it where that has another one.
func Begin(folder string, run Run) (*Log, error) {
	l := &Log{run: run, every: 1}
	var err error
	for try := 0; ; try++ {
		if err := l.place(folder); err != nil {
			return nil, err
		}
		l.metrics, err = appending(filepath.Join(l.Folder, metricsFile))
		// Another process may have started in this folder and not said so yet.
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == 100 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err == nil {
		l.rows, err = appending(filepath.Join(l.Folder, epochsFile))
	}
	if err == nil {
		l.train, err = tensorboard.Create(filepath.Join(l.Folder, "train"))
	}
	if err != nil {
		l.close()
		return nil, fmt.Errorf("runs: %w", err)
	}
	l.run.State, l.run.To = Running, run.From
	l.describe()
	return l, errors.Join(l.err, l.save())
}

// place finds the folder: the one that is given, if it has no run, or one that this run
// continues.
func (l *Log) place(folder string) error {
	for n := 1; n < 10_000; n++ {
		l.Folder = folder
		if n > 1 {
			l.Folder = fmt.Sprintf("%s-%d", folder, n)
		}
		if err := os.MkdirAll(l.Folder, 0o777); err != nil {
			return fmt.Errorf("runs: Log is %q, want a folder that can be written to: %w", folder, err)
		}
		old, err := Read(l.Folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if n > 1 {
				l.Note = fmt.Sprintf("logged to %s: %s has another run", l.Folder, folder)
			}
			l.run.Name = l.Folder
			return nil
		case err != nil:
			return err
		case old.Net == l.run.Net && old.To == l.run.From && old.To > 0 && old.State != Running:
			l.run.Name, l.run.Began, l.run.From, l.run.Results = l.Folder, old.Began, old.From, old.Results
			if !strings.Contains(old.Code, l.run.Code) {
				l.run.Code = old.Code + "\n\n" + l.run.Code
			}
			if n := len(old.Epochs); n > 0 {
				l.columns = slices.Sorted(maps.Keys(results(old.Epochs[n-1])))
			}
			return nil
		}
	}
	return fmt.Errorf("runs: %s has more than 9,999 runs: want another folder", folder)
}

// appending opens a file for lines that are added, and locks it while it is open. One that is
// torn is cut at its last whole line.
func appending(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	// Some file systems have no locks.
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		var data []byte
		if data, err = io.ReadAll(f); err == nil {
			err = f.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// describe gives TensorBoard the settings and the graph.
func (l *Log) describe() {
	var b strings.Builder
	b.WriteString("| setting | value |\n|---|---|\n")
	for _, k := range slices.Sorted(maps.Keys(l.run.Settings)) {
		fmt.Fprintf(&b, "| %s | `%s` |\n", k, strings.ReplaceAll(l.run.Settings[k], "|", "\\|"))
	}
	fmt.Fprintf(&b, "\n%s\n", l.run.Machine)
	l.note(l.train.Text("settings", l.run.To, b.String()))
	if l.run.Code != "" {
		l.note(l.train.Text("code", l.run.To, "```go\n"+l.run.Code+"\n```"))
	}
	if len(l.run.Layers) > 0 && l.run.From == l.run.To { // TensorBoard wants one graph of a run
		nodes := []tensorboard.Node{{Name: "input", Op: "Input"}}
		for _, layer := range l.run.Layers {
			nodes = append(nodes, tensorboard.Node{Name: layer.Name, Op: layer.Kind, Inputs: []string{nodes[len(nodes)-1].Name}})
		}
		l.note(l.train.Graph(nodes))
	}
}

func (l *Log) note(err error) {
	if l.err == nil {
		l.err = err
	}
}

// Progress writes the steps and epochs that are new. before is what the net had been trained
// when the history began.
func (l *Log) Progress(p result.Progress) {
	h := p.History
	if h == nil || l.err != nil {
		return
	}
	if l.every == 1 && p.Total > mostPoints {
		l.every = (p.Total + mostPoints - 1) / mostPoints
	}
	for l.epochs < len(h.Epochs) {
		e := h.Epochs[l.epochs]
		end := len(h.Losses)
		if p.Steps > 0 {
			end = min(end, e.Number*p.Steps)
		}
		l.steps(h, end)
		l.epoch(e, end)
		l.epochs++
	}
	l.steps(h, len(h.Losses))
	if time.Since(l.flushed) > flushEvery {
		l.flush()
	}
}

// before is the steps before this history.
func (l *Log) before() int { return l.run.To - l.part.taken }

// steps writes the steps of a history up to one.
func (l *Log) steps(h *result.History, end int) {
	for i := l.part.taken; i < end; i++ {
		p := &l.part
		p.taken, p.steps, p.loss = p.taken+1, p.steps+1, p.loss+float64(h.Losses[i])
		if i < len(h.Right) {
			p.right, p.answers = p.right+int(h.Right[i]), p.answers+int(h.Answers[i])
		}
		if l.run.To++; p.steps >= l.every {
			l.point()
		}
	}
}

// point writes the steps that are not written yet.
func (l *Log) point() {
	p := l.part
	if p.steps == 0 {
		return
	}
	s := Step{Step: l.run.To, Loss: Number(p.loss / float64(p.steps))}
	l.note(l.train.Scalar("loss", s.Step, float64(s.Loss)))
	if p.answers > 0 {
		s.Accuracy = Number(float64(p.right) / float64(p.answers))
		l.note(l.train.Scalar("accuracy", s.Step, float64(s.Accuracy)))
	}
	l.line(s)
	l.part = part{taken: p.taken}
	if l.points++; l.points >= mostPoints { // the number of steps was not known
		l.points, l.every = 0, 10*l.every
	}
}

func (l *Log) line(v any) {
	b, err := json.Marshal(v)
	l.note(err)
	l.lines.Write(append(b, '\n'))
}

// epoch writes the results of an epoch, which ended with a step of the history.
func (l *Log) epoch(e result.Epoch, end int) {
	out := Epoch{Epoch: e.Number, Step: l.before() + end, Seconds: e.Elapsed.Seconds(), Train: scores(&e.Train), Validation: scores(e.Validation)}
	for name, v := range out.Train {
		if name != "loss" && name != "accuracy" { // they have a curve of their steps
			l.note(l.train.Scalar(name, out.Step, float64(v)))
		}
	}
	if out.Validation != nil && l.validation == nil && l.err == nil {
		var err error
		l.validation, err = tensorboard.Create(filepath.Join(l.Folder, "validation"))
		l.note(err)
	}
	if l.err != nil {
		return
	}
	for name, v := range out.Validation {
		l.note(l.validation.Scalar(name, out.Step, float64(v)))
	}
	l.line(out)
	l.run.Results = results(out)
	if columns := slices.Sorted(maps.Keys(l.run.Results)); !slices.Equal(columns, l.columns) {
		l.columns = columns
		fmt.Fprintln(&l.table, strings.Join(append([]string{"epoch", "step", "seconds"}, columns...), ","))
	}
	row := []string{strconv.Itoa(out.Epoch), strconv.Itoa(out.Step), strconv.FormatFloat(out.Seconds, 'f', 3, 64)}
	for _, c := range l.columns {
		row = append(row, strconv.FormatFloat(float64(l.run.Results[c]), 'g', -1, 64))
	}
	fmt.Fprintln(&l.table, strings.Join(row, ","))
}

// scores are the results of a score by name; nil of none.
func scores(s *result.Score) map[string]Number {
	if s == nil {
		return nil
	}
	all := map[string]Number{"loss": Number(s.Loss)}
	if s.Labels {
		all["accuracy"] = Number(s.Accuracy())
	}
	for _, m := range s.Metrics {
		all[m.Name] = Number(m.Value)
	}
	return all
}

// results are all results of an epoch.
func results(e Epoch) map[string]Number {
	all := maps.Clone(e.Train)
	for name, v := range e.Validation {
		all[validation+name] = v
	}
	return all
}

// flush writes what is gathered to the files.
func (l *Log) flush() {
	l.flushed = time.Now()
	for _, f := range []struct {
		file *os.File
		b    *bytes.Buffer
	}{{l.metrics, &l.lines}, {l.rows, &l.table}} {
		_, err := f.file.Write(f.b.Bytes())
		l.note(err)
		f.b.Reset()
	}
	l.note(l.train.Flush())
	if l.validation != nil {
		l.note(l.validation.Flush())
	}
}

// save writes run.json.
func (l *Log) save() error {
	data, err := json.MarshalIndent(l.run, "", "  ")
	if err == nil {
		err = files.Write(filepath.Join(l.Folder, runFile), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("runs: %w", err)
	}
	return nil
}

// End writes the rest and how the training ended. Its error says what of the run is not
// logged.
func (l *Log) End(h *result.History, err error) error {
	if h != nil {
		l.Progress(result.Progress{History: h})
		l.point()
	}
	switch {
	case errors.Is(err, context.Canceled), err == nil && h != nil && h.Stopped != "":
		l.run.State = Stopped
		if h != nil && h.Stopped != "" {
			l.run.State += ": " + h.Stopped
		}
	case err != nil:
		why, _, _ := strings.Cut(err.Error(), "\n")
		l.run.State = Failed + ": " + why
	default:
		l.run.State = Done
	}
	l.run.Ended = time.Now()
	if l.err == nil {
		l.flush()
	}
	l.note(l.save())
	l.close()
	if l.err != nil {
		return fmt.Errorf("the log in %s is not complete: %w", l.Folder, l.err)
	}
	return nil
}

func (l *Log) close() {
	for _, f := range []*os.File{l.metrics, l.rows} {
		if f != nil {
			l.note(f.Close())
		}
	}
	for _, w := range []*tensorboard.Writer{l.train, l.validation} {
		if w != nil {
			l.note(w.Close())
		}
	}
}

// Save makes a run of a history, such as that of a job, in a folder as Begin finds it.
func Save(folder string, run Run, h *result.History) (*Run, error) {
	if h == nil {
		return nil, errors.New("runs: got no history, want one of Fit or Job.Follow")
	}
	if run.Began.IsZero() {
		run.Began = time.Now().Add(-h.Last().Elapsed)
	}
	l, err := Begin(folder, run)
	if err != nil {
		return nil, err
	}
	steps := 0
	if n := len(h.Epochs); n > 0 {
		steps = len(h.Losses) / n
	}
	l.Progress(result.Progress{History: h, Steps: steps, Total: len(h.Losses)})
	if err := l.End(h, nil); err != nil {
		return nil, err
	}
	return Read(l.Folder)
}
