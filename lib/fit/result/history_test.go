package result

import (
	"fmt"
	"testing"
	"time"
)

// TestStrings holds that results are lines, also those of many numbers.
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
		{Epoch{Number: 3, Train: score, Elapsed: 1234567 * time.Microsecond}, "epoch 3: loss 0.0717, accuracy 97.80 % (978/1000); after 1.235s"},
		{Epoch{Number: 1, Train: Score{Loss: 1.5}, Validation: &Score{Loss: 2.5}}, "epoch 1: loss 1.5; validation loss 2.5; after 0s"},
		{&Prediction{Classes: []int32{7, 4}, Output: make([]float32, 20), Width: 10}, "2 examples: classes 7 4"},
		{&Prediction{Classes: many, Output: make([]float32, 80), Width: 2}, "40 examples: classes 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 …"},
		{&Prediction{Output: []float32{1, 2.5, 3, 4}, Width: 2}, "2 examples of 2 numbers: 1 2.5 3 4"},
		{&Prediction{}, "0 examples of 0 numbers: "},
	} {
		if got := tt.x.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestHistory holds the columns that Chainer's PrintReport has: a cell is empty
// where there is no validation, or no label.
func TestHistory(t *testing.T) {
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	right := func(loss float64, right, n int) Score { return Score{Loss: loss, Right: right, N: n, Labels: true} }
	held := func(s Score) *Score { return &s }
	for _, tt := range []struct {
		name    string
		history History
		want    string
	}{
		{"empty", History{}, `
epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time
`},
		{"one epoch", History{Epochs: []Epoch{{Number: 1, Train: right(0.25, 3, 4), Elapsed: second(1.5)}}}, `
epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time
1           0.25                              0.75                                     1.5
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
epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time
1           0.5                                                                        0.125
2           0.25        0.3                                                            0.25
`},
		{"stopped", History{Note: "used 1 of 2 devices", Stopped: "context canceled", Losses: []float32{1}, Steps: 1}, `
epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time
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
