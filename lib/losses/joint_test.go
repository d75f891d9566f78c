package losses

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// TestJoint holds that the loss of several results is the weighted sum of the losses of each
// by itself.
func TestJoint(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	out := []float32{1, -2, 0.5, 3, 4, 0, 1, 2, -1, 0.3}
	y := []float32{2, 1, 0, -1, 3, 5}
	for _, cross := range []CrossEntropy{{}, {IgnoreNegative: true}, {ClassWeights: []float64{1, 2, 3}}} {
		joint := Joint{{"class", 3, cross, 0}, {"box", 2, MSE{}, 0.5}}
		if !cross.IgnoreNegative {
			y[3] = 1
		} else {
			y[3] = -1
		}
		got, err := ExecOnce(backend, func(out, y *Node) *Node {
			mean := func(l Loss, out, y *Node) *Node {
				loss, w := l.Apply(out, y, nil)
				if w == nil {
					return ReduceAllMean(loss)
				}
				return Div(ReduceAllSum(loss), ReduceAllSum(w))
			}
			labels := ConvertDType(Reshape(Slice(y, AxisRange(), AxisRange(0, 1)), 2), dtypes.Int32)
			parts := Add(mean(cross, Slice(out, AxisRange(), AxisRange(0, 3)), labels), MulScalar(mean(MSE{}, Slice(out, AxisRange(), AxisRange(3)), Slice(y, AxisRange(), AxisRange(1))), 0.5))
			return Stack([]*Node{mean(joint, out, y), parts}, 0)
		}, tensors.FromFlatDataAndDimensions(out, 2, 5), tensors.FromFlatDataAndDimensions(y, 2, 3))
		if err != nil {
			t.Fatal(err)
		}
		if v := tensors.MustCopyFlatData[float32](got); math.Abs(float64(v[0]-v[1])) > 1e-5 {
			t.Errorf("%+v: got %g, want %g", cross, v[0], v[1])
		}
	}
	y[3] = 1
	joint := Joint{{"class", 3, CrossEntropy{}, 0}, {"box", 2, MSE{}, 0.5}}
	if joint.Title() != "class cross entropy and box mean squared error" {
		t.Errorf("got %q", joint.Title())
	}
	for want, err := range map[string]error{
		"no parts":                              Check(Joint{}, 0),
		"part 1, a: Size is 0":                  Check(Joint{{"a", 0, MSE{}, 0}}, 0),
		"part 1, a: it has no Loss":             Check(Joint{{"a", 1, nil, 0}}, 0),
		"Weight is -1":                          Check(Joint{{"a", 1, MSE{}, -1}}, 0),
		"its Loss is a Joint":                   Check(Joint{{"a", 1, joint, 0}}, 0),
		"part 1, a: losses.CrossEntropy: Smoot": Check(Joint{{"a", 2, CrossEntropy{Smoothing: 2}, 0}}, 0),
		"the net returns 4 numbers":             joint.CheckTargets(y, 2, 4),
		"6 target numbers for 3 examples":       joint.CheckTargets(y, 3, 5),
		"target class of example 0 is 3":        joint.CheckTargets([]float32{3, 0, 0}, 1, 5),
		"target class of example 0 is 0.5":      joint.CheckTargets([]float32{0.5, 0, 0}, 1, 5),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := joint.CheckTargets(y, 2, 5); err != nil {
		t.Error(err)
	}
}
