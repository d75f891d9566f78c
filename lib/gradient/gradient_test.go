package gradient

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
)

// TestDefineTwice: each of several gradients of one node has a backward pass of its own, and
// a gradient has a gradient.
func TestDefineTwice(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	got := MustExecOnceN(backend, func(x *Node) []*Node {
		y := Reversed(x, 0)
		first := Gradient(ReduceAllSum(y), x)[0]
		second := Gradient(ReduceAllSum(Mul(y, Const(x.Graph(), []float32{1, 2, 3}))), x)[0]
		slope := Gradient(ReduceAllSum(Mul(Square(y), y)), x)[0]
		return []*Node{first, second, Gradient(ReduceAllSum(slope), x)[0]}
	}, []float32{4, 5, 6})
	for i, want := range [][]float32{{1, 1, 1}, {3, 2, 1}, {24, 30, 36}} {
		if v := got[i].Value(); !reflect.DeepEqual(v, want) {
			t.Errorf("gradient %d is %v, want %v", i+1, v, want)
		}
	}
}

// TestDefineWrong: gradients that do not fit are errors, not gradients of something else.
func TestDefineWrong(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		backward func(x, v *Node) []*Node
		want     string
	}{
		{"too few", func(_, _ *Node) []*Node { return nil }, "0 gradients for 1 nodes"},
		{"another shape", func(_, v *Node) []*Node { return []*Node{ReduceAllSum(v)} }, "want (Float32)[3]"},
	}
	for _, tt := range tests {
		_, err := ExecOnce(backend, func(x *Node) *Node {
			y := Define(StopGradient(Sign(x)), []*Node{x}, func(v *Node) []*Node { return tt.backward(x, v) })
			return Gradient(ReduceAllSum(y), x)[0]
		}, []float32{-1, 0, 2})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
	straight := MustExecOnce(backend, func(x *Node) *Node {
		y := Define(StopGradient(Sign(x)), []*Node{x}, func(v *Node) []*Node { return []*Node{v} })
		return Gradient(ReduceAllSum(MulScalar(y, 3)), x)[0]
	}, []float32{-1, 0, 2}).Value()
	if want := []float32{3, 3, 3}; !reflect.DeepEqual(straight, want) {
		t.Errorf("the straight-through gradient is %v, want %v", straight, want)
	}
}
