package result

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// TestStrings holds that results are lines, also those of many numbers.
func TestHTML(t *testing.T) {
	h := &History{Stopped: "x<y"}
	for i := range 90 {
		h.Epochs = append(h.Epochs, Epoch{Number: i + 1, Train: Score{Loss: 1.5, Metrics: []Metric{{"a<b", 2}}}})
	}
	got := h.HTML()
	for _, want := range []string{"main/<wbr/>a&lt;b</th>", `<tr><td style="text-align:right;white-space:nowrap">1</td><td style="text-align:right;white-space:nowrap">1.5</td><td style="text-align:right;white-space:nowrap">2</td>`,
		`<td colspan="4" style="text-align:left">… 70 epochs between them`, "stopped: x&lt;y"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
}

func TestStrings(t *testing.T) {
	score := Score{Loss: 0.07168, Right: 978, N: 1000, Labels: true}
	many := make([]int32, 40)
	for _, tt := range []struct {
		x    fmt.Stringer
		want string
	}{
		{score, "loss 0.0717, accuracy 97.80 % (978/1000)"},
		{Score{Loss: 12.5, N: 3}, "loss 12.5"},
		{Score{Loss: 1.2345678e30, Labels: true}, "loss 1.235e+30, accuracy 0.00 % (0/0)"},
		{Score{Loss: 3.9762e-05, Labels: true}, "loss 3.976e-05, accuracy 0.00 % (0/0)"},
		{Score{Labels: true}, "loss 0.0000, accuracy 0.00 % (0/0)"},
		{Epoch{Number: 3, Train: score, Elapsed: 1234567 * time.Microsecond}, "epoch 3: loss 0.0717, accuracy 97.80 % (978/1000); after 1.2 s"},
		{Epoch{Number: 1, Train: Score{Loss: 1.5}, Validation: &Score{Loss: 2.5}}, "epoch 1: loss 1.5; validation loss 2.5; after 0 s"},
		{Progress{Phase: "compile", Epoch: 1, Epochs: 5, Steps: 7500, Elapsed: 12 * time.Second}, "epoch 1/5, compiling, 12 s"},
		{Progress{Phase: "train", Epoch: 1, Epochs: 5, Steps: 7500, Labels: true, Elapsed: 12 * time.Second}, "epoch 1/5, step 0/7,500, 12 s"},
		{Progress{Phase: "train", Epoch: 2, Epochs: 5, Step: 3750, Steps: 7500, Loss: 0.0712, Labels: true, Accuracy: 0.978, Left: 9200 * time.Millisecond}, "epoch 2/5, step 3,750/7,500, 9.2 s left, loss 0.0712, accuracy 97.8 %"},
		{Progress{Phase: "train", Epoch: 1, Epochs: 5, Step: 7, Steps: 9, Loss: 1, Metrics: []Metric{{"mae", 0.5}}, Left: 3900 * time.Second}, "epoch 1/5, step 7/9, 1h05m left, loss 1.0000, mae 0.5"},
		{Progress{Phase: "test", Epoch: 1, Epochs: 5, Step: 9, Steps: 9, Loss: 1, Left: time.Minute}, "epoch 1/5, validating, 1m00s left, loss 1.0000"},
		{Progress{Phase: "paused: it needs 2 devices", Epoch: 1, Epochs: 5, Step: 9, Steps: 9, Loss: 1, Left: time.Minute}, "epoch 1/5, paused: it needs 2 devices"},
		{&Prediction{Classes: []int32{7, 4}, Output: make([]float32, 20), Width: 10}, "2 examples: classes 7 4"},
		{&Prediction{Classes: many, Output: make([]float32, 80), Width: 2}, "40 examples: classes 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 …"},
		{&Prediction{Output: []float32{1, 2.5, 3, 4}, Width: 2}, "2 examples of 2 numbers: 1 2.5 3 4"},
		{&Prediction{}, "0 examples of 0 numbers: "},
		{&Prediction{Classes: []int32{1}, Names: []string{"night"}, Output: []float32{0, 1}, Width: 2}, "1 example: classes night"},
		{&Prediction{Names: []string{"New York", "Oslo"}, Output: make([]float32, 4), Width: 2}, "2 examples: classes New York, Oslo"},
		{&Prediction{Values: []float64{210.50000000001, 3}, Output: []float32{0, 1}, Width: 1}, "2 examples: 210.5 3"},
	} {
		if got := tt.x.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestOutcome holds the line that stays of a run.
func TestOutcome(t *testing.T) {
	epoch := func(n int) Epoch {
		return Epoch{Number: n, Train: Score{Loss: 0.0712, Right: 978, N: 1000, Labels: true}, Elapsed: 12 * time.Second}
	}
	at := Progress{Phase: "train", Epoch: 2, Epochs: 5, Step: 3750, Steps: 7500, Loss: 0.5, Labels: true, Accuracy: 0.9}
	for _, tt := range []struct {
		name string
		at   Progress
		h    *History
		err  error
		want string
	}{
		{"done", at, &History{Epochs: []Epoch{epoch(4), epoch(5)}}, nil, "done: 5 epochs in 12 s, loss 0.0712, accuracy 97.8 %"},
		{"done without steps", Progress{}, &History{}, nil, "done"},
		{"stopped in an epoch", at, &History{Epochs: []Epoch{epoch(1)}, Stopped: "the cell was stopped"}, nil, "stopped at epoch 2/5, step 3,750/7,500, loss 0.5000, accuracy 90.0 %"},
		{"stopped after an epoch", Progress{Epoch: 2, Epochs: 5, Step: 7500, Steps: 7500}, &History{Epochs: []Epoch{epoch(2)}, Stopped: "by a callback"}, nil, "stopped at epoch 2/5, loss 0.0712, accuracy 97.8 %"},
		{"stopped by its context", at, &History{}, fmt.Errorf("fit: %w", context.Canceled), "stopped at epoch 2/5, step 3,750/7,500, loss 0.5000, accuracy 90.0 %"},
		{"stopped late", Progress{Epoch: 830, Epochs: 100_000, Step: 1, Steps: 1}, &History{Epochs: []Epoch{epoch(830)}, Stopped: "x"}, nil, "stopped at epoch 830/100,000, loss 0.0712, accuracy 97.8 %"},
		{"stopped before a step", Progress{Phase: "compile", Epoch: 1, Epochs: 5, Steps: 7500}, &History{Stopped: "x"}, nil, "stopped at epoch 1/5, step 0/7,500"},
		{"failed", at, &History{}, errors.New("fit: no memory\nmore"), "failed at epoch 2/5, step 3,750/7,500: fit: no memory"},
		{"failed before it began", Progress{}, nil, errors.New("fit: no data"), "failed: fit: no data"},
		{"not finite", at, &History{}, &NotFiniteError{Loss: math.NaN(), Epoch: 1, Step: 3}, "failed at epoch 1, step 3: loss NaN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.at.Outcome(tt.h, tt.err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestHistory holds the columns that Chainer's PrintReport has: a cell is empty
// where there is no validation, or no label.
func TestHistory(t *testing.T) {
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	right := func(loss float64, right, n int) Score { return Score{Loss: loss, Right: right, N: n, Labels: true} }
	held := func(s Score) *Score { return &s }
	many := func(n int) (all []Epoch) {
		for i := range n {
			all = append(all, Epoch{Number: i + 1, Train: Score{Loss: 0.5, N: 4}, Elapsed: second(2)})
		}
		return all
	}
	rows := func(from, to int) (text string) {
		for i := from; i <= to; i++ {
			text += fmt.Sprintf("%-12d0.5         2\n", i)
		}
		return text
	}
	for _, tt := range []struct {
		name    string
		history History
		want    string
	}{
		{"empty", History{}, `
epoch       main/loss   elapsed_time
`},
		{"one epoch", History{Epochs: []Epoch{{Number: 1, Train: right(0.25, 3, 4), Elapsed: second(1.5)}}}, `
epoch       main/loss   main/accuracy  elapsed_time
1           0.25        0.75           1.5
`},
		{"validation", History{Epochs: []Epoch{
			{Number: 9, Train: right(0.191836412, 56489, 60000), Validation: held(right(0.0935412, 9711, 10000)), Elapsed: second(4.9341249)},
			{Number: 10, Train: right(1.5e-7, 60000, 60000), Validation: held(right(12345678, 0, 10000)), Elapsed: second(1234567.8)},
			{Number: 11, Train: right(0, 1, 3), Validation: held(right(2, 2, 3)), Elapsed: second(2e6)},
		}}, `
epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time
9           0.191836    0.0935412             0.941483       0.9711                    4.93412
10          1.5e-07     1.23457e+07           1              0                         1.23457e+06
11          0           2                     0.333333       0.666667                  2e+06
`},
		{"validation of some", History{Epochs: []Epoch{
			{Number: 1, Train: right(2, 1, 2), Elapsed: second(1)},
			{Number: 2, Train: right(1, 2, 2), Validation: held(right(3, 1, 2)), Elapsed: second(2)},
		}}, `
epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time
1           2                                 0.5                                      1
2           1           3                     1              0.5                       2
`},
		{"no labels", History{Epochs: []Epoch{
			{Number: 1, Train: Score{Loss: 0.5, N: 4}, Elapsed: second(0.125)},
			{Number: 2, Train: Score{Loss: 0.25, N: 4}, Validation: &Score{Loss: 0.3, N: 2}, Elapsed: second(0.25)},
		}}, `
epoch       main/loss   validation/main/loss  elapsed_time
1           0.5                               0.125
2           0.25        0.3                   0.25
`},
		{"long", History{Epochs: many(61)}, `
epoch       main/loss   elapsed_time
` + rows(1, 10) + "… 41 epochs between them are in History.Epochs\n" + rows(52, 61)},
		{"as long as it may be", History{Epochs: many(60)}, "\nepoch       main/loss   elapsed_time\n" + rows(1, 60)},
		{"stopped", History{Note: "used 1 of 2 devices", Stopped: "context canceled", Losses: []float32{1}, Steps: 1}, `
epoch       main/loss   elapsed_time
note: used 1 of 2 devices
stopped: context canceled
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := "\n" + tt.history.String(); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestMFU(t *testing.T) {
	h := &History{FLOPs: 3e9, Steps: 100, Device: 2 * time.Second}
	for _, tt := range []struct {
		name    string
		devices int
		peak    float64
		want    float64
	}{
		{"one device", 1, 1e12, 0.15},
		{"two devices", 2, 1e12, 0.075},
		{"a peak that is not known", 1, 0, math.NaN()},
	} {
		h.Devices = tt.devices
		if got := h.MFU(tt.peak); math.Abs(got-tt.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(tt.want) {
			t.Errorf("%s: got %g, want %g", tt.name, got, tt.want)
		}
	}
	if got := (&History{Steps: 1, Device: time.Second}).MFU(1e12); !math.IsNaN(got) {
		t.Errorf("of FLOPs that nobody counted: got %g, want NaN", got)
	}
}

// TestAdviceOfAnotherArchitecture holds that the error of a net under another one's name and its hint give
// one advice, and that a rollback is only said to undo it.
func TestAdviceOfAnotherArchitecture(t *testing.T) {
	e := &ArchitectureError{Net: "n", Model: "m", Differences: []string{"l1/weights: got [4 8], want [4 16]"}}
	if want := `fit: net "n" in the session has another architecture than m: l1/weights: got [4 8], want [4 16]; net.Reset() starts over with it, or give it a name of its own`; e.Error() != want {
		t.Errorf("got %s, want %s", e, want)
	}
	if want := "net.Reset() deletes the arrays n/* of the other one; %rollback undoes the cell that did so"; e.Hint() != want {
		t.Errorf("hint: got %s, want %s", e.Hint(), want)
	}
}
