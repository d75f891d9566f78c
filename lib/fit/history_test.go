package fit

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
		{Tensor{"conv/weights", []int{2, 2}, []float32{1, 2, -3, 0.5}}, "conv/weights [2 2]: 1 2 -3 0.5"},
		{Tensor{Name: "o", Dims: []int{9}, Data: make([]float32, 9)}, "o [9]: 0 0 0 0 0 0 0 0 …"},
	} {
		if got := tt.x.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
