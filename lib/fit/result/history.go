package result

import (
	"context"
	"errors"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"gaiden/lib/timing/units"
)

// Score is how well a net does on a set.
type Score struct {
	Loss    float64
	Right   int // correct answers; 0 if there are no labels
	N       int // examples
	Labels  bool
	Metrics []Metric // those of Config.Metrics, in their order
	Elapsed time.Duration
}

// Metric is the value of one of package metrics.
type Metric struct {
	Name  string
	Value float64
}

// Metric is a metric by its name, or the loss or accuracy; NaN where there is none.
func (s Score) Metric(name string) float64 {
	v, is := s.metric(name)
	if !is {
		return math.NaN()
	}
	return v
}

// Names are the results that Metric knows.
func (s Score) Names() []string {
	names := []string{"loss"}
	if s.Labels {
		names = append(names, "accuracy")
	}
	for _, m := range s.Metrics {
		names = append(names, m.Name)
	}
	return names
}

func (s Score) metric(name string) (v float64, is bool) {
	switch {
	case name == "loss":
		return s.Loss, true
	case name == "accuracy" && s.Labels:
		return s.Accuracy(), true
	}
	for _, m := range s.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}

// Accuracy is the share of correct answers, 0 to 1.
func (s Score) Accuracy() float64 {
	if s.N == 0 {
		return 0
	}
	return float64(s.Right) / float64(s.N)
}

// String is a line such as: loss 0.0717, accuracy 98.03 % (9803/10000).
func (s Score) String() string {
	text := fmt.Sprintf("loss %.6g", s.Loss)
	if s.Labels {
		text = fmt.Sprintf("loss %s, accuracy %.2f %% (%d/%d)", s.LossString(), 100*s.Accuracy(), s.Right, s.N)
	}
	for _, m := range s.Metrics {
		text += fmt.Sprintf(", %s %.4g", m.Name, m.Value)
	}
	return text
}

// LossString is the loss with four decimals, or four digits of a very large or small one.
func (s Score) LossString() string {
	if loss := math.Abs(s.Loss); loss >= 1e6 || 0 < loss && loss < 0.001 {
		return fmt.Sprintf("%.4g", s.Loss)
	}
	return fmt.Sprintf("%.4f", s.Loss)
}

// Epoch is one line of a History.
type Epoch struct {
	Number     int
	Train      Score  // over the epoch, while the weights changed
	Validation *Score // after it; nil without a set for it
	Elapsed    time.Duration
}

// String is a line such as: epoch 3: loss 0.0717, accuracy 97.80 % (9780/10000);
// validation loss 0.0812, accuracy 97.40 % (974/1000); after 1.2s.
func (e Epoch) String() string {
	s := fmt.Sprintf("epoch %d: %s", e.Number, e.Train)
	if e.Validation != nil {
		s += fmt.Sprintf("; validation %s", e.Validation)
	}
	return s + fmt.Sprintf("; after %s", units.Clock(e.Elapsed.Seconds()))
}

// History is the record of a training.
type History struct {
	Epochs []Epoch
	// Losses are those of every step, also of an epoch that was not finished.
	Losses []float32
	// Right are the correct answers of every step, Answers how many there were; nil without labels.
	Right, Answers []int32
	Steps          int
	// Dropped is how many steps the device did whose results the end of the run left unused.
	Dropped int
	// Compile is how long the run waited for programs, Device how long for steps.
	Compile, Device time.Duration
	// FLOPs is what a step computes, counted in its program; 0 where that was not needed to
	// plan the run, as on most CPUs.
	FLOPs float64
	// Waits is how often the devices had nothing to do until a stream gave more examples.
	Waits int
	// Best is the epoch whose weights the net has, with KeepBest; else 0.
	Best int
	// Stopped says why the run ended before its last epoch; "" if it did not.
	Stopped string
	// Devices is how many devices trained. Note says what a user should know: why fewer
	// devices or other kernels were used than requested, or that memory was short.
	Devices int
	Note    string
}

// Last is the last epoch that was finished; the zero Epoch when none was.
func (h *History) Last() Epoch {
	if len(h.Epochs) == 0 {
		return Epoch{}
	}
	return h.Epochs[len(h.Epochs)-1]
}

// MFU is the model FLOPs utilisation (Chowdhery et al., 2022): what the steps computed, as a
// share of a device's peak in FLOP/s over the time that they took. NaN if it is not known.
func (h *History) MFU(peak float64) float64 {
	seconds := h.Device.Seconds() * float64(max(1, h.Devices))
	if !(h.FLOPs > 0 && peak > 0 && seconds > 0) {
		return math.NaN()
	}
	return h.FLOPs * float64(h.Steps) / seconds / peak
}

// shownEpochs is how many epochs a printed history has at most, and ends how many of the first
// and last ones it has otherwise.
const shownEpochs, ends = 60, 10

// Shown are the epochs that a printed history has: all, or of a long one the first and the last
// ones, with how many are left out between them.
func (h *History) Shown() (first, last []Epoch, between int) {
	n := len(h.Epochs)
	if n <= shownEpochs {
		return h.Epochs, nil, 0
	}
	return h.Epochs[:ends], h.Epochs[n-ends:], n - 2*ends
}

// rows are the columns' names, and a row for each epoch: of a long history its ends, and
// between them a row of one cell. Columns of which nothing is known are left out.
func (h *History) rows() (names []string, rows [][]string) {
	labels := slices.ContainsFunc(h.Epochs, func(e Epoch) bool { return e.Train.Labels })
	validated := slices.ContainsFunc(h.Epochs, func(e Epoch) bool { return e.Validation != nil })
	shown := []string{"loss"}
	if labels {
		shown = append(shown, "accuracy")
	}
	for _, m := range h.Last().Train.Metrics {
		shown = append(shown, m.Name)
	}
	names = []string{"epoch"}
	for _, name := range shown {
		names = append(names, "main/"+name)
		if validated {
			names = append(names, "validation/main/"+name)
		}
	}
	names = append(names, "elapsed_time")
	first, rest, between := h.Shown()
	for i, e := range slices.Concat(first, rest) {
		if between > 0 && i == len(first) {
			rows = append(rows, []string{fmt.Sprintf("… %s between them are in History.Epochs", units.Plural(between, "epoch"))})
		}
		cells := []string{fmt.Sprint(e.Number)}
		for _, name := range shown {
			for i, s := range []*Score{&e.Train, e.Validation} {
				if i == 1 && !validated {
					continue
				}
				cell := ""
				if s != nil {
					if v, is := s.metric(name); is {
						cell = fmt.Sprintf("%.6g", v)
					}
				}
				cells = append(cells, cell)
			}
		}
		rows = append(rows, append(cells, fmt.Sprintf("%.6g", e.Elapsed.Seconds())))
	}
	return names, rows
}

// notes are what stands below the rows, a line each.
func (h *History) notes() (l []string) {
	if h.Note != "" {
		l = append(l, "note: "+h.Note)
	}
	if h.Best > 0 {
		l = append(l, fmt.Sprintf("weights of epoch %d, the best", h.Best))
	}
	if h.Stopped != "" {
		l = append(l, "stopped: "+h.Stopped)
	}
	return l
}

// String is the table that Chainer's PrintReport prints.
func (h *History) String() string {
	names, rows := h.rows()
	var b strings.Builder
	for _, cells := range append([][]string{names}, rows...) {
		text := ""
		for i, c := range cells {
			text += fmt.Sprintf("%-*s", max(12, len(names[i])+2), c)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	for _, note := range h.notes() {
		b.WriteString(note + "\n")
	}
	return b.String()
}

// HTML is the same as a table, whose names of columns may be broken after a slash.
func (h *History) HTML() string {
	names, rows := h.rows()
	var b strings.Builder
	b.WriteString("<div><table><thead><tr>")
	for _, name := range names {
		fmt.Fprintf(&b, `<th style="text-align:right">%s</th>`, strings.ReplaceAll(html.EscapeString(name), "/", "/<wbr/>"))
	}
	b.WriteString("</tr></thead><tbody>")
	for _, cells := range rows {
		cell := `<td style="text-align:right;white-space:nowrap">%s</td>` // 1.5e-08 is one word
		if len(cells) == 1 {
			cell = fmt.Sprintf(`<td colspan="%d" style="text-align:left">%%s</td>`, len(names))
		}
		b.WriteString("<tr>")
		for _, c := range cells {
			fmt.Fprintf(&b, cell, html.EscapeString(c))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	for _, note := range h.notes() {
		b.WriteString("<div><small>" + html.EscapeString(note) + "</small></div>")
	}
	return b.String() + "</div>"
}

// Display, if it is set, begins to show the training of a net: progress gets what a
// Train's Progress gets, and end how it ended. Package report sets it in notebooks.
var Display func(net string) (progress func(Progress), end func(*History, error))

// Progress is the state of a training while it runs.
type Progress struct {
	Phase         string // compile, data, train, test, or "paused" and why, of a job
	Epoch, Epochs int    // of this run, from 1
	Step, Steps   int    // of this epoch
	Trained       int    // steps of this run that are done
	Total         int    // steps of this run
	Loss          float64
	Accuracy      float64       // both over this epoch so far
	Labels        bool          // Accuracy means something
	Metrics       []Metric      // over this epoch so far
	Elapsed, Left time.Duration // Left is 0 as long as nothing is known
	Validation    *Score        // of the last epoch that has one
	History       *History      // so far; it changes when the function that was given the Progress has returned
}

// String is a line such as:
// epoch 2/5, step 3,750/7,500, 9.2 s left, loss 0.0712, accuracy 97.8 %.
// The time is what the run has taken as long as the rest cannot be estimated.
func (p Progress) String() string {
	s := "epoch " + outOf(p.Epoch, p.Epochs)
	switch {
	case p.Phase == "compile":
		s += ", compiling"
	case p.Phase == "test":
		s += ", validating"
	case strings.HasPrefix(p.Phase, "paused"):
		return s + ", " + p.Phase
	default:
		s += ", step " + outOf(p.Step, p.Steps)
	}
	if p.Left > 0 && p.Phase != "compile" {
		s += fmt.Sprintf(", %s left", units.Clock(p.Left.Seconds()))
	} else {
		s += fmt.Sprintf(", %s", units.Clock(p.Elapsed.Seconds()))
	}
	return s + p.results()
}

// results are those of the epoch so far: none before its first step.
func (p Progress) results() string {
	if p.Step == 0 {
		return ""
	}
	s := ", loss " + Score{Loss: p.Loss}.LossString()
	if p.Labels {
		s += ", accuracy " + units.Percent(p.Accuracy)
	}
	for _, m := range p.Metrics {
		s += fmt.Sprintf(", %s %.4g", m.Name, m.Value)
	}
	return s
}

// outOf is a number of all, of which 0 are not known.
func outOf(n, all int) string {
	if all == 0 {
		return units.Count(n)
	}
	return units.Count(n) + "/" + units.Count(all)
}

// ErrDetached is how a run ends for those who stop to follow it while it continues.
var ErrDetached = errors.New("no longer followed")

// Outcome is how the run ended that was last seen at p, a line such as:
//
//	done: 5 epochs in 12 s, loss 0.0712, accuracy 97.8 %
//	stopped at epoch 2/5, step 3,750/7,500, loss 0.0712, accuracy 97.8 %
//	failed at epoch 1/5, step 3/7,500: and why
func (p Progress) Outcome(h *History, err error) string {
	if h == nil {
		h = &History{}
	}
	last := h.Last()
	final := Progress{Epoch: last.Number, Step: 1, Loss: last.Train.Loss, Labels: last.Train.Labels, Accuracy: last.Train.Accuracy(), Metrics: last.Train.Metrics}
	ended, place := final, "epoch "+outOf(max(p.Epoch, last.Number, 1), max(p.Epochs, last.Number, 1))
	if p.Steps > 0 && (p.Step > 0 && p.Step < p.Steps || len(h.Epochs) == 0) {
		place += ", step " + outOf(p.Step, p.Steps)
		ended = p
	}
	var bad *NotFiniteError
	switch {
	case errors.Is(err, ErrDetached):
		return "followed until " + place + ended.results()
	case errors.As(err, &bad):
		return fmt.Sprintf("failed at epoch %d, step %s: loss %v", bad.Epoch, units.Count(bad.Step), bad.Loss)
	case err != nil && !errors.Is(err, context.Canceled):
		why, _, _ := strings.Cut(err.Error(), "\n")
		if r := []rune(why); len(r) > 80 {
			why = string(r[:79]) + "…"
		}
		if p.Epochs == 0 {
			return "failed: " + why
		}
		return "failed at " + place + ": " + why
	case err != nil || h.Stopped != "":
		return "stopped at " + place + ended.results()
	case len(h.Epochs) == 0:
		return "done"
	}
	return fmt.Sprintf("done: %s in %s", units.Plural(last.Number, "epoch"), units.Clock(last.Elapsed.Seconds())) + final.results()
}

// Done is the part of the run that is done, 0 to 1.
func (p Progress) Done() float64 {
	if p.Total == 0 {
		return 0
	}
	return float64(p.Trained) / float64(p.Total)
}
