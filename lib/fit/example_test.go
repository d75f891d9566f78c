package fit_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"gaiden/lib/datasets"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// learn trains a small net on the peaks surface and asks it for two points.
func learn(s *session.Session, w io.Writer) error {
	net := fit.New("peaks", models.Peaks(), fit.Config{Session: s, Seed: 1, Optimizer: optim.Adam{LearningRate: 0.08}})
	p := datasets.Peaks(40)
	data, err := net.Upload("surface", fit.Data{X: p.X, Y: p.Y})
	if err != nil {
		return err
	}
	history, err := net.Fit(data, fit.Train{Epochs: 200, Batch: data.N, InOrder: true})
	if err != nil {
		return err
	}
	first, last := history.Epochs[0].Train.Loss, history.Last().Train.Loss
	fmt.Fprintln(w, history.Steps, "steps; the loss fell to less than a third:", last < first/3)

	answer, err := net.Predict([]float32{0, 1.5, 0.25, -1.6}) // near a top and the lowest place
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "the top is above the valley:", answer.Output[0] > answer.Output[1])
	return net.Reset() // forgets its weights; without it, any later cell finds them
}

// The first use of a net makes its weights in the session, which outlive the
// program. TestExample runs this and looks at what it prints.
func Example() {
	s, err := session.Open()
	if err == nil {
		err = learn(s, os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
	}
}

func TestExample(t *testing.T) {
	var b strings.Builder
	if err := learn(fit.Open(t), &b); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "200 steps; the loss fell to less than a third: true\nthe top is above the valley: true\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
