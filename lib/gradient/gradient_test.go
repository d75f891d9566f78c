package gradient

import (
	"reflect"
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
