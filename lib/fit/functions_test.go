package fit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	traced "github.com/pkg/errors"

	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/models"
)

var noMap map[string]int

// TestWrongFunctions holds that what is wrong in a user's loss, step or net is said with its name,
// what was got and wanted, and that the error has the line of the user's function.
func TestWrongFunctions(t *testing.T) {
	t.Parallel()
	s := open(t)
	labels, numbers := points(4, 3, 2), Data{X: make([]float32, 12), Y: make([]float32, 8)}
	one := models.Net{Name: "one", Input: []int{3}, Layers: []models.Layer{models.Dense{Name: "d", Units: 2}}}
	var none []int
	type row struct {
		name   string
		net    models.Net
		config Config
		data   Data
		want   string
	}
	loss := func(name string, of func(out, y *Node) *Node, want string) row {
		return row{name, one, Config{Loss: losses.Func{Name: name, Of: of}}, numbers, want}
	}
	own := func(name string, data Data, of func(*step.Step), want string) row {
		return row{name, one, Config{Step: of}, data, want}
	}
	net := func(name string, of func(scope *model.Scope, x *Node) *Node, want string) row {
		return row{name, models.Net{Name: "one", Input: []int{3}, Function: func(scope *model.Scope, in models.Inputs) *Node {
			return of(scope, in["x"])
		}}, Config{}, labels, want}
	}
	dense := func(scope *model.Scope, x *Node) *Node {
		return models.Call(scope, models.Dense{Name: "d", Units: 2}, x)
	}
	noGradient := "the loss has no gradient for any of the weights"
	for _, tt := range []row{
		loss("axis", func(out, y *Node) *Node { return ReduceMean(Square(Sub(out, y)), 0) }, `loss "axis": Of returned (Float32)[2]: want Float32, of shape [4]`),
		loss("integers", func(out, y *Node) *Node { return ConvertDType(ReduceSum(out, -1), dtypes.Int32) }, "Of returned (Int32)[4]: want Float32"),
		loss("nil", func(out, y *Node) *Node { return nil }, `loss "nil": Of returned nil`),
		loss("ranks", func(out, y *Node) *Node { return Sub(out, ReduceSum(y, -1)) }, `loss "ranks": hlo: Sub`),
		loss("index", func(out, y *Node) *Node { return MulScalar(out, float64(none[1])) }, `loss "index": runtime error: index out of range`),
		loss("stopped", func(out, y *Node) *Node { return StopGradient(Sub(out, y)) }, noGradient),
		loss("constant", func(out, y *Node) *Node { return ScalarZero(out.Graph(), dtypes.Float32) }, noGradient),
		own("no Y", Data{X: labels.X}, func(s *step.Step) { s.Minimize(losses.Mean(losses.CrossEntropy{}, s.Forward(s.X), s.Y)) }, "Step.Y is nil, for the data have no Y"),
		own("no V", labels, func(s *step.Step) { s.Minimize(ReduceAllSum(Mul(s.Forward(s.X), s.V))) }, "Step.V is nil, for the data have no V"),
		own("stopped", labels, func(s *step.Step) { s.Minimize(ReduceAllSum(StopGradient(s.Forward(s.X)))) }, noGradient),
		own("panic", labels, func(*step.Step) { panic("oh") }, "Config.Step: oh"),
		own("no input", labels, func(s *step.Step) { s.Minimize(ReduceAllSum(Square(s.In["a"]))) }, "Node is nil; Step.V is nil, for the data have no V; Step.In has x"),
		own("nil map", labels, func(*step.Step) { noMap["a"]++ }, "Config.Step: assignment to entry in nil map"),
		net("mean of the batch", func(scope *model.Scope, x *Node) *Node { return ReduceMean(dense(scope, x), 0) }, "for 3 examples one returns (Float32)[2]: want floats of shape [3 …]"),
		net("two numbers", func(scope *model.Scope, x *Node) *Node {
			y := dense(scope, x)
			return Stack([]*Node{ReduceAllMean(y), ReduceAllMax(y)}, 0)
		}, "for 3 examples one returns (Float32)[2]: want floats of shape [3 …]"),
		net("each with each", func(scope *model.Scope, x *Node) *Node {
			return MatMul(dense(scope, x), Transpose(dense(scope, x), 0, 1))
		}, "one returns [3] for each of 3 examples, and [2] for each of 2"),
		net("scalar", func(scope *model.Scope, x *Node) *Node { return ReduceAllSum(dense(scope, x)) }, "for 2 examples one returns (Float32): want floats of shape [2 …]"),
		net("transposed", func(scope *model.Scope, x *Node) *Node { return Transpose(x, 0, 1) }, "returns (Float32)[3, 2]: want floats"),
		net("integers", func(scope *model.Scope, x *Node) *Node { return ArgMax(dense(scope, x), -1) }, "returns (Int32)[2]: want floats"),
		net("classes", func(scope *model.Scope, x *Node) *Node { return OneHot(ArgMax(dense(scope, x), -1), 2, x.DType()) }, noGradient),
		net("float64", func(scope *model.Scope, x *Node) *Node {
			w := scope.VariableWithShape("w", shapes.Make(dtypes.Float64, 3, 2)).NodeValue(x.Graph())
			return ConvertDType(MatMul(ConvertDType(x, dtypes.Float64), w), dtypes.Float32)
		}, "variable w is (Float64)[3, 2]: want Float32, which weights are"),
		net("nothing", func(scope *model.Scope, x *Node) *Node { return nil }, "the Function returned nil"),
		net("no input", func(scope *model.Scope, x *Node) *Node { return dense(scope, nil) }, "layer d got no input, but nil"),
		net("unnamed", func(scope *model.Scope, x *Node) *Node { return models.Call(scope, models.Dense{Units: 2}, x) }, "it has no Name and makes weights"),
		net("rank", func(scope *model.Scope, x *Node) *Node {
			return models.Call(scope, models.Conv1D{Name: "c", Channels: 2, Kernel: 1}, x)
		}, "layer c got an input of [2 3]"),
		net("good", func(scope *model.Scope, x *Node) *Node { // what has no weights needs no name
			x = models.Call(scope, models.Dropout{Rate: 0.5}, models.Call(scope, models.Flatten{}, x))
			return dense(scope, models.Call(scope, models.Flatten{}, x))
		}, ""),
	} {
		tt.config.FirstLook, tt.config.Session = true, s
		n := New("net", tt.net, tt.config)
		set, err := n.Upload("d", tt.data)
		if err == nil {
			_, err = n.Fit(set, Train{Batch: 4, Quiet: true})
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
			continue
		}
		if tt.want == "" || tt.want == noGradient || strings.Contains(tt.want, "returns") || tt.name == "float64" { // known after the function
			continue
		}
		var made interface{ StackTrace() traced.StackTrace }
		if !errors.As(err, &made) || !strings.Contains(fmt.Sprintf("%+v", made.StackTrace()), "functions_test.go") {
			t.Errorf("%s: the error has no line of this file: %v", tt.name, err)
		}
		if err := n.Reset(); err != nil && !strings.Contains(err.Error(), "fit: net") {
			t.Error(err)
		}
	}
}
