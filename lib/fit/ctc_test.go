package fit

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/losses"
	"gaiden/lib/models"
)

// TestCTC holds CTC and its gradient to PyTorch's, by testdata/oracle.py of package losses: of
// sequences that are shorter, empty, or too long for the steps, and with weights.
func TestCTC(t *testing.T) {
	t.Parallel()
	s := open(t)
	raw, err := os.ReadFile("../losses/testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Loss     float64
		Gradient []float64
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	for name, steps := range map[string]int{"CTC": 7, "CTC blank": 7, "CTC V example": 7, "CTC short": 3, "CTC one": 1, "CTC lengths": 7, "CTC blank, lengths": 7} {
		wave := func(g *Graph, step float64, size int) *Node {
			return Sin(MulScalar(AddScalar(Iota(g, shapes.Make(dtypes.Float32, size), 0), 1), step))
		}
		exec, err := NewExec(s.Backend(), func(g *Graph) []*Node {
			out := Reshape(MulScalar(wave(g, 0.7, 4*steps*5), 3), 4, steps, 5)
			loss, four := losses.CTC{}, int32(4)
			if strings.HasPrefix(name, "CTC blank") {
				loss.Blank, four = 4, 0
			}
			labels := Reshape(Const(g, []int32{1, 2, 2, 3, 1, -1, -1, -1, -1, four, four, four}), 4, 3)
			var v *Node
			if strings.HasSuffix(name, "V example") {
				v = Mul(AddScalar(wave(g, 1.7, 4), 1), Const(g, []float32{1, 0, 1, 1}))
			}
			logits := out
			if strings.HasSuffix(name, "lengths") {
				logits = loss.Within(out, models.MaskOf(models.WithLengths(out, Const(g, []int32{7, 4, 2, 4}))))
			}
			each, weight := loss.Apply(logits, labels, v)
			mean := ReduceAllMean(each)
			if weight != nil {
				mean = Div(ReduceAllSum(each), ReduceAllSum(weight))
			}
			return []*Node{mean, Gradient(mean, out)[0]}
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Call()
		if err != nil {
			t.Fatal(err)
		}
		if loss := float64(got[0].Value().(float32)); math.Abs(loss-want[name].Loss) > 1e-5*(1+want[name].Loss) {
			t.Errorf("%s: loss %v: want %v", name, loss, want[name].Loss)
		}
		got[1].ConstFlatData(func(flat any) {
			for i, g := range flat.([]float32) {
				if math.Abs(float64(g)-want[name].Gradient[i]) > 1e-5 {
					t.Errorf("%s: gradient %d is %v: want %v", name, i, g, want[name].Gradient[i])
				}
			}
		})
	}
}
