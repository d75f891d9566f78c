package models

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// SinusoidalPositions adds sines and cosines of the time step to sequences (Vaswani et al.,
// 2017): number 2i is the sine, and 2i+1 the cosine, of step·10000^(-2i/units).
type SinusoidalPositions struct{ Name string }

func (l SinusoidalPositions) Title() (name, kind string) { return l.Name, "SinusoidalPositions" }

// Apply takes x shaped [n length units] and returns the same shape.
func (l SinusoidalPositions) Apply(_ *model.Scope, x *Node) *Node {
	sequences(x)
	g, length, units := x.Graph(), x.Shape().Dimensions[1], x.Shape().Dimensions[2]
	half := (units + 1) / 2
	angle := angles(Iota(g, shapes.Make(dtypes.Float32, length, 1), 0), 10000, half, 2/float64(units))
	both := Reshape(Stack([]*Node{Sin(angle), Cos(angle)}, -1), length, 2*half)
	return Add(x, ConvertDType(ExpandLeftToRank(Slice(both, AxisRange(), AxisRange(0, units)), 3), x.DType()))
}

// TimestepEncoding makes vectors of the time steps of a diffusion (Ho et al., 2020): sines and then
// cosines of step·MaxPeriod^(-i/half), where half is Units/2.
type TimestepEncoding struct {
	Name      string
	Units     int     // an even number
	MaxPeriod float64 // of the slowest sine; default: 10000
}

func (l TimestepEncoding) Title() (name, kind string) { return l.Name, "TimestepEncoding" }

func (l TimestepEncoding) check() error {
	if err := least("Units", l.Units, 2); err != nil || l.Units%2 != 0 {
		return fmt.Errorf("Units is %d: want an even number of 2 or more", l.Units)
	}
	if !(l.MaxPeriod == 0 || l.MaxPeriod > 1) || math.IsInf(l.MaxPeriod, 0) {
		return fmt.Errorf("MaxPeriod is %g: want more than 1, or 0 for 10000", l.MaxPeriod)
	}
	return nil
}

// Apply takes steps, integers or floats, shaped [n] or [n 1], and returns floats [n units]. In a
// net of bfloat16 steps above 256 are integers, because it would round them.
func (l TimestepEncoding) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	if n := x.Shape().Dimensions; x.Rank() == 0 || x.Rank() > 2 || x.Rank() == 2 && n[1] != 1 {
		panic(fmt.Errorf("got %v: want one time step for each example, [n] or [n 1]", n))
	}
	angle := angles(Reshape(ConvertDType(x, dtypes.Float32), -1, 1), cmp.Or(l.MaxPeriod, 10000), l.Units/2, 2/float64(l.Units))
	y := Concatenate([]*Node{Sin(angle), Cos(angle)}, -1)
	if x.DType().IsFloat() {
		y = ConvertDType(y, x.DType())
	}
	return y
}

// angles are steps [n 1] multiplied by base^(-i·power), [n count].
func angles(step *Node, base float64, count int, power float64) *Node {
	rates := make([]float32, count)
	for i := range rates {
		rates[i] = float32(math.Pow(base, -float64(i)*power))
	}
	n := step.Shape().Dimensions[0]
	return Mul(BroadcastToDims(step, n, count), BroadcastToDims(Reshape(Const(step.Graph(), rates), 1, count), n, count))
}
