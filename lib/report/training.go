package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/janpfeifer/gonb/gonbui"

	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
)

func init() {
	if gonbui.IsNotebook {
		result.Display, result.DisplayText = func(net string) (func(fit.Progress), func(*fit.History, error)) { return Training(net, nil) }, generated
		result.DrawTensors = func(l ...fit.Tensor) string { return tensors(l).HTML() }
	}
}

// ErrorCurve plots the error rate of a history, 1 - accuracy, over the epochs, or the
// loss if the net has no labels. The plot of a nil history is empty.
func ErrorCurve(h *fit.History) Plot {
	p := epochs(h, wrong)
	p.Title, p.Y = "error", "error rate"
	if h != nil && len(h.Epochs) > 0 && !h.Last().Train.Labels {
		p.Title, p.Y = "loss", "loss"
	}
	return p
}

// Curve plots the loss, the accuracy or a metric of a history over the epochs, by its name, or
// by validation/ and its name of the validation alone. A note says which names there are where
// the history has no such result.
func Curve(h *fit.History, name string) Plot {
	result, validated := strings.CutPrefix(name, validation)
	p := epochs(h, func(s fit.Score) float64 { return s.Metric(result) })
	p.Title, p.Y = name, name
	if names := resultsOf(h); len(names) > 0 && !slices.Contains(names, name) {
		p.Series, p.Notes = nil, []string{noResult(name, names)}
	}
	if validated && len(p.Series) > 0 {
		p.Series = p.Series[1:]
	}
	return p
}

// Curves plots the loss, the accuracy or a metric of several histories over the epochs, one line
// for each, by its name: of the validation, where it has one. A note names the histories
// without such a result.
func Curves(name string, histories map[string]*fit.History) Plot {
	p := Plot{Title: name, X: "epoch", Y: name}
	for _, run := range slices.Sorted(maps.Keys(histories)) {
		curve := Curve(histories[run], name)
		for _, note := range curve.Notes {
			p.Notes = append(p.Notes, run+": "+note)
		}
		if lines := curve.Series; len(lines) > 0 {
			line := lines[len(lines)-1]
			line.Name = run
			p.Series = append(p.Series, line)
		}
	}
	return p
}

const validation = "validation/"

// resultsOf are the names of a history's results, as those of a run that was logged.
func resultsOf(h *fit.History) []string {
	all := map[string]bool{}
	if h != nil {
		for _, e := range h.Epochs {
			for _, name := range e.Train.Names() {
				all[name] = true
			}
			if e.Validation != nil {
				for _, name := range e.Validation.Names() {
					all[validation+name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func noResult(name string, names []string) string {
	return fmt.Sprintf("no result %q: want one of %s", name, strings.Join(names, ", "))
}

// epochs plots a number of each epoch, in training and validation.
func epochs(h *fit.History, of func(fit.Score) float64) Plot {
	p := Plot{X: "epoch"}
	if h == nil {
		h = &fit.History{}
	}
	train, test := Series{Name: "train"}, Series{Name: "test"}
	for _, e := range h.Epochs {
		train.X, train.Y = append(train.X, float64(e.Number)), append(train.Y, of(e.Train))
		if v := e.Validation; v != nil {
			test.X, test.Y = append(test.X, float64(e.Number)), append(test.Y, of(*v))
		}
	}
	p.Series = append(p.Series, train)
	if len(test.Y) > 0 {
		p.Series = append(p.Series, test)
	}
	return p
}

func wrong(s fit.Score) float64 {
	if !s.Labels {
		return s.Loss
	}
	return 1 - s.Accuracy()
}

// LossCurve plots the loss of every step of a history on a logarithmic axis. The plot
// of a nil history is empty.
func LossCurve(h *fit.History) Plot {
	if h == nil {
		h = &fit.History{}
	}
	y := make([]float64, len(h.Losses))
	for i, l := range h.Losses {
		y[i] = float64(l)
	}
	return Plot{Title: "loss of every step", X: "step", Y: "loss", LogY: true, Series: []Series{{Name: "loss", Y: y}}}
}

// Answers compares predictions with true labels, in the format of the article that
// notebook 01 reproduces.
type Answers struct {
	Title     string
	Want, Got []int32 // true and predicted labels, shaped [n]
	Show      int     // number of labels to print; 0 means 16
}

// Right returns the number of correct predictions.
func (a Answers) Right() int {
	n := 0
	for i := range a.both() {
		if a.Want[i] == a.Got[i] {
			n++
		}
	}
	return n
}

func (a Answers) both() int { return min(len(a.Want), len(a.Got)) }

// String returns three lines: the first labels, the first predictions, and the
// accuracy over all examples.
func (a Answers) String() string {
	show := cmp.Or(a.Show, 16)
	show = min(show, a.both())
	var b strings.Builder
	if a.Title != "" {
		fmt.Fprintln(&b, a.Title)
	}
	fmt.Fprintf(&b, "correct: %v\npredict: %v\n", a.Want[:show], a.Got[:show])
	if a.both() == 0 {
		b.WriteString("accuracy rate: no examples")
		return b.String()
	}
	fmt.Fprintf(&b, "accuracy rate: %.2f %% (%d/%d)", 100*float64(a.Right())/float64(a.both()), a.Right(), a.both())
	if len(a.Want) != len(a.Got) {
		fmt.Fprintf(&b, "\n%d labels but %d predictions: the rest is left out", len(a.Want), len(a.Got))
	}
	return b.String()
}

func (a Answers) HTML() string { return "<pre>" + escape(a.String()) + "</pre>" }
