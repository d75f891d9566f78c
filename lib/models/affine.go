package models

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// RandomAffine rotates, shifts and scales each image about its middle while the net is
// trained, with bilinear interpolation and zeros outside.
type RandomAffine struct {
	Name    string
	Degrees float64 // rotates by up to as many, in either direction
	Shift   float64 // by up to this part of a side: 0 to 1
	Scale   float64 // by a factor of 1-Scale to 1+Scale: 0 or more, and less than 1
}

// Title names the layer.
func (l RandomAffine) Title() (name, kind string) { return l.Name, "RandomAffine" }

func (l RandomAffine) check() error {
	switch {
	case !(l.Degrees >= 0 && l.Degrees <= 180):
		return fmt.Errorf("Degrees is %g: want 0 to 180", l.Degrees)
	case !(l.Shift >= 0 && l.Shift <= 1):
		return fmt.Errorf("Shift is %g: want 0 to 1", l.Shift)
	case l.Degrees == 0 && l.Shift == 0 && l.Scale == 0:
		return errors.New("Degrees, Shift and Scale are 0: want some, else it does nothing")
	}
	return share("Scale", l.Scale)
}

// Apply takes x shaped [n height width channels].
func (l RandomAffine) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if !augments(scope, x) {
		return x
	}
	d, angle := x.Shape().Dimensions, l.Degrees*math.Pi/180
	down, right := l.Shift*float64(d[1]), l.Shift*float64(d[2])
	turn, scale := draw(scope, x, -angle, angle), draw(scope, x, 1-l.Scale, 1+l.Scale)
	y := draw(scope, x, -down, down)
	return affine(x, turn, scale, y, draw(scope, x, -right, right))
}

// affine turns images clockwise by angles, scales them, and shifts them down and to the right
// by numbers of pixels, all float32 [n].
func affine(x, angle, scale, down, right *Node) *Node {
	d, g := x.Shape().Dimensions, x.Graph()
	rows, columns := grid(g, dtypes.Float32, d[0], d[1], d[2])
	middleRow, middleColumn := float64(d[1]-1)/2, float64(d[2]-1)/2
	v, u := Sub(AddScalar(rows, -middleRow), along(down, rows)), Sub(AddScalar(columns, -middleColumn), along(right, rows))
	cos, sin := along(Div(Cos(angle), scale), rows), along(Div(Sin(angle), scale), rows)
	row := AddScalar(Sub(Mul(cos, v), Mul(sin, u)), middleRow)
	column := AddScalar(Add(Mul(cos, u), Mul(sin, v)), middleColumn)

	top, left := Floor(row), Floor(column)
	var sum *Node
	for i := range 2 {
		for j := range 2 {
			r, c := AddScalar(top, float64(i)), AddScalar(left, float64(j))
			near := func(a, b *Node) *Node { return OneMinus(Abs(Sub(a, b))) }
			weight := ConvertDType(InsertAxes(Mul(near(row, r), near(column, c)), -1), x.DType())
			part := Mul(pixels(x, ConvertDType(r, dtypes.Int32), ConvertDType(c, dtypes.Int32)), weight)
			if sum == nil {
				sum = part
			} else {
				sum = Add(sum, part)
			}
		}
	}
	return sum
}
