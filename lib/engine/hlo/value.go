package hlo

import (
	"strings"

	"github.com/gomlx/compute/shapes"
)

// value is one tensor of a computation: a parameter, a constant or a result.
// It is what the builder hands out as a compute.Value.
type value struct {
	builder *Builder
	home    *Function // where it was made; of no meaning for a constant
	shape   shapes.Shape
	stmt    *statement // nil for a parameter or a constant
	index   int        // which parameter, or which result of stmt
	number  int        // its name in the text, given while the text is written
	literal string     // of a constant: its attribute, such as dense<1.0>
	integer *int64     // of a scalar integer constant: its value, to count loops
}

func (v *value) isConstant() bool { return v.literal != "" }

// isSplat reports whether v is a constant of equal elements, which are in no
// memory.
func (v *value) isSplat() bool {
	return v.isConstant() && !strings.HasPrefix(v.literal, "dense<[") && !strings.HasPrefix(v.literal, `dense<"`)
}

func (v *value) isParameter() bool { return v.stmt == nil && v.literal == "" }

// form says how a statement is written.
type form int

const (
	formSame    form = iota // stablehlo.add %0, %1 : tensor<f32>
	formPlain               // stablehlo.reshape %0 : (tensor<4xf32>) -> tensor<2x2xf32>
	formCall                // func.call @f0(%0) {…} : (tensor<f32>) -> tensor<f32>
	formReduce              // stablehlo.reduce(%0 init: %1) … : (…) -> …
	formGeneric             // "stablehlo.while"(%0) <{…}> ({…}) : (…) -> …
)

// statement is one line of a function.
type statement struct {
	op      string // with the dialect, and whatever comes before the operands
	form    form
	in, out []*value
	attrs   string      // after the operands, or between <{ and }> in the generic form
	body    string      // a region that is the same each time, as text
	regions []*Function // regions that the user wrote
	callee  *Function
	label   string
	call    string // of a custom call: the name in its configuration
	cost    Cost
	sticky  bool // has an effect beyond its results, so it stays even when they are unused
	live    bool
	framed  []int // of a pad of zeros around its operand: how many are before it on each axis
}

// markLive notes that v is needed.
func (v *value) markLive() {
	if v.stmt != nil {
		v.stmt.live = true
	}
}

func shapesOf(vs []*value) []shapes.Shape {
	all := make([]shapes.Shape, len(vs))
	for i, v := range vs {
		all[i] = v.shape
	}
	return all
}
