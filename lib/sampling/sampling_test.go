package sampling

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// TestNext compares how often tokens are drawn with the probabilities of Hugging Face's
// LogitsProcessors (temperature, then top-k, then top-p), computed here in float64.
func TestNext(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	logits := []float32{1, -2, 0.5, 2, 2, -0.25, float32(math.Inf(-1)), 0}
	const rows = 20000
	for _, s := range []Sampling{
		{Temperature: 1}, {Temperature: 0.5}, {Temperature: 3},
		{Temperature: 1, TopK: 1}, {Temperature: 1, TopK: 3}, {Temperature: 0.7, TopK: 5}, {Temperature: 1, TopK: 100},
		{Temperature: 1, TopP: 0.3}, {Temperature: 1, TopP: 0.7}, {Temperature: 2, TopP: 0.9}, {Temperature: 1, TopP: 1},
		{Temperature: 1.5, TopK: 4, TopP: 0.8},
	} {
		draw := func(step uint64) []int32 {
			out := MustExecOnce(backend, func(g *Graph) *Node {
				x := BroadcastToDims(InsertAxes(Const(g, logits), 0), rows, len(logits))
				var k, p *Node
				if s.TopK > 0 {
					k = Const(g, int32(s.TopK))
				}
				if s.TopP > 0 {
					p = Const(g, float32(s.TopP))
				}
				tokens, wrong := Next(x, Const(g, float32(s.Temperature)), k, p, Const(g, uint64(7)), Const(g, step))
				return Where(wrong, FillScalar(g, shapes.Make(dtypes.Int32, rows), -1), tokens)
			})
			return out.Value().([]int32)
		}
		got := make([]float64, len(logits))
		drawn := draw(1)
		for _, k := range drawn {
			got[k] += 1.0 / rows
		}
		want := probabilities(logits, s)
		for k := range want {
			if off := math.Abs(got[k] - want[k]); off > 4.5*math.Sqrt(want[k]*(1-want[k])/rows) {
				t.Errorf("%+v: token %d is drawn %.4f of the time, want %.4f", s, k, got[k], want[k])
			}
		}
		if !slices.Equal(drawn, draw(1)) {
			t.Errorf("%+v: other tokens from the same seed", s)
		}
		if s.TopK != 1 && slices.Equal(drawn, draw(2)) {
			t.Errorf("%+v: the same tokens at another step", s)
		}
	}
}

// probabilities are those of tokens with ties at the border all taken.
func probabilities(logits []float32, s Sampling) []float64 {
	n := len(logits)
	order := make([]int, n)
	x := make([]float64, n)
	for i := range x {
		order[i], x[i] = i, float64(logits[i])/s.Temperature
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if x[a] > x[b] {
			return -1
		} else if x[a] < x[b] {
			return 1
		}
		return 0
	})
	softmax := func() []float64 {
		p, sum := make([]float64, n), 0.0
		for i := range p {
			p[i] = math.Exp(x[i])
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	drop := func(least float64) {
		for i := range x {
			if x[i] < least {
				x[i] = math.Inf(-1)
			}
		}
	}
	if s.TopK > 0 && s.TopK < n {
		drop(x[order[s.TopK-1]])
	}
	if s.TopP > 0 && s.TopP < 1 {
		sum := 0.0
		for _, i := range order {
			if sum += softmax()[i]; sum >= s.TopP {
				drop(x[i])
				break
			}
		}
	}
	return softmax()
}

// TestNextGreedy holds that without a temperature the first of the largest logits is taken, and
// that logits that are no numbers are noticed.
func TestNextGreedy(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	out := MustExecOnceN(backend, func(g *Graph) []*Node {
		tokens, wrong := Next(Const(g, [][]float32{{1, 3, 3}, {nan, 1, 2}, {1, nan, 0}, {0, 1, inf}, {-inf, -inf, -inf}, {-inf, -5, -inf}}), nil, nil, nil, nil, nil)
		return []*Node{tokens, wrong}
	})
	tokens, wrong := out[0].Value().([]int32), out[1].Value().([]bool)
	if tokens[0] != 1 || tokens[5] != 1 || !slices.Equal(wrong, []bool{false, true, true, true, true, false}) {
		t.Errorf("tokens %v, wrong %v", tokens, wrong)
	}
}

// TestCheck holds that a setting that means nothing is refused by its name.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		s    Sampling
		want string
	}{
		{Sampling{}, ""},
		{Sampling{Temperature: 1, TopK: 3, TopP: 0.5, Stop: []string{"\n"}, Chat: "tea", Restart: true}, ""},
		{Sampling{Length: -1}, "Length is -1"},
		{Sampling{Temperature: -1}, "Temperature is -1"},
		{Sampling{Temperature: math.NaN()}, "Temperature is NaN"},
		{Sampling{Temperature: math.Inf(1)}, "Temperature is +Inf"},
		{Sampling{Temperature: 1, TopK: -1}, "TopK is -1"},
		{Sampling{Temperature: 1, TopP: 1.5}, "TopP is 1.5"},
		{Sampling{Temperature: 1, TopP: math.NaN()}, "TopP is NaN"},
		{Sampling{TopK: 5}, "without a Temperature"},
		{Sampling{Restart: true}, "without a Chat"},
		{Sampling{Stop: []string{"a", ""}}, "empty text"},
	} {
		if err := tt.s.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.s, err, tt.want)
		}
	}
}
