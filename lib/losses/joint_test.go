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
		"the net returns 4 numbers":             joint.CheckTargets(6, 2, 4),
		"6 target numbers for 3 examples":       joint.CheckTargets(6, 3, 5),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := joint.CheckTargets(6, 2, 5); err != nil {
		t.Error(err)
	}
}

// TestJointWeights holds that each part is the weighted mean of its own targets, of which those
// of weight 0 may be NaN.
func TestJointWeights(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	joint := Joint{{"class", 2, CrossEntropy{}, 0}, {"box", 2, MAE{}, 2}}
	out := []float32{0, 0, 1, 2, 1, 1, 3, 4, 5, 5, 5, 5}
	for _, tt := range []struct {
		name string
		y, v []float32
		want float64
	}{
		{"each target", []float32{0, 0, nan, nan, 0, 0, 1, nan, 2}, []float32{1, 1, 0, 0, 3, 1, 1, 0, 1}, math.Ln2 + 2*17/6.},
		{"each example", []float32{0, 0, 1, nan, nan, nan, 1, 5, 3}, []float32{1, 0, 3}, math.Ln2 + 2*(1*1+3*1)/4.},
		{"no box counts", []float32{0, nan, nan, 1, nan, nan, nan, nan, nan}, []float32{1, 0, 0, 1, 0, 0, 0, 0, 0}, math.Ln2},
	} {
		got, err := ExecOnce(backend, func(out, y, v *Node) *Node {
			loss, w := joint.Apply(out, y, v)
			if w != nil {
				t.Errorf("%s: got weights of shape %s, want none", tt.name, w.Shape())
			}
			return ReduceAllMean(loss)
		}, tensors.FromFlatDataAndDimensions(out, 3, 4), tensors.FromFlatDataAndDimensions(tt.y, 3, 3), tensors.FromFlatDataAndDimensions(tt.v, append([]int{3}, []int{3}[:len(tt.v)/9]...)...))
		if err != nil {
			t.Fatal(err)
		}
		if x := float64(tensors.ToScalar[float32](got)); !(math.Abs(x-tt.want) < 1e-5) {
			t.Errorf("%s: got %g, want %g", tt.name, x, tt.want)
		}
	}
}
