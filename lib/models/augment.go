package models

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
)

// RandomFlip mirrors half of the images, left to right, while the net is trained.
type RandomFlip struct {
	Name     string
	Vertical bool // half of them top to bottom, too
}

// Title names the layer.
func (l RandomFlip) Title() (name, kind string) { return l.Name, "RandomFlip" }

func (RandomFlip) check() error { return nil }

// Apply takes x shaped [n height width channels].
func (l RandomFlip) Apply(scope *model.Scope, x *Node) *Node {
	if augments(scope, x) {
		x = flip(x, 2, draw(scope, x, -1, 1))
		if l.Vertical {
			x = flip(x, 1, draw(scope, x, -1, 1))
		}
	}
	return x
}

// flip reverses an axis of the images whose number of which is less than 0.
func flip(x *Node, axis int, which *Node) *Node {
	which = LessThan(each(which), ScalarZero(x.Graph(), dtypes.Float32))
	return Where(BroadcastToDims(which, x.Shape().Dimensions...), gradient.Reversed(x, axis), x)
}

// RandomCrop cuts a part out of each image, after zeros were added around it: at random while
// the net is trained, otherwise from the middle. With Pad alone it shifts images by up to as
// many pixels.
type RandomCrop struct {
	Name          string
	Height, Width int // of the part; default: those of the image
	Pad           int // pixels on each side
}

// Title names the layer.
func (l RandomCrop) Title() (name, kind string) { return l.Name, "RandomCrop" }

func (l RandomCrop) check() error {
	err := cmp.Or(usual("Height", l.Height, "the image's"), usual("Width", l.Width, "the image's"), least("Pad", l.Pad, 0))
	if err == nil && l.Height == 0 && l.Width == 0 && l.Pad == 0 {
		err = errors.New("Height, Width and Pad are 0: want some, else it does nothing")
	}
	return err
}

// Apply takes x shaped [n height width channels] and returns [n Height Width channels].
func (l RandomCrop) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	images(x)
	d := x.Shape().Dimensions
	height, width := cmp.Or(l.Height, d[1]), cmp.Or(l.Width, d[2])
	freeRows, freeColumns := d[1]+2*l.Pad-height, d[2]+2*l.Pad-width
	if freeRows < 0 || freeColumns < 0 {
		panic(fmt.Errorf("got images of %d×%d, and %d pixels on each side: want no less than %d×%d", d[1], d[2], l.Pad, height, width))
	}
	if !scope.IsTraining(x.Graph()) {
		middle := func(free int) *Node { return Const(x.Graph(), repeated(int32(free/2-l.Pad), d[0])) }
		return crop(x, height, width, middle(freeRows), middle(freeColumns))
	}
	at := func(free int) *Node {
		return AddScalar(ConvertDType(Floor(draw(scope, x, 0, float64(free+1))), dtypes.Int32), float64(-l.Pad))
	}
	top := at(freeRows)
	return crop(x, height, width, top, at(freeColumns))
}

// crop is the part of each image from a row and a column on, int32 [n]; outside of the image
// it is 0.
func crop(x *Node, height, width int, top, left *Node) *Node {
	rows, columns := grid(x.Graph(), dtypes.Int32, x.Shape().Dimensions[0], height, width)
	return pixels(x, Add(rows, along(top, rows)), Add(columns, along(left, columns)))
}

// Cutout zeroes a square of each image, at a random place, while the net is trained (DeVries
// and Taylor, 2017). Part of it may lie outside of the image.
type Cutout struct {
	Name string
	Size int // of a side, in pixels
}

// Title names the layer.
func (l Cutout) Title() (name, kind string) { return l.Name, "Cutout" }

func (l Cutout) check() error { return least("Size", l.Size, 1) }

// Apply takes x shaped [n height width channels].
func (l Cutout) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if !augments(scope, x) {
		return x
	}
	at := func(side int) *Node {
		return ConvertDType(Floor(draw(scope, x, 0, float64(side))), dtypes.Int32)
	}
	y := at(x.Shape().Dimensions[1])
	return cutout(x, l.Size, y, at(x.Shape().Dimensions[2]))
}

// cutout zeroes squares around pixels y, x, int32 [n].
func cutout(x *Node, size int, row, column *Node) *Node {
	d := x.Shape().Dimensions
	rows, columns := grid(x.Graph(), dtypes.Int32, d[0], d[1], d[2])
	in := func(i, centre *Node) *Node {
		from := AddScalar(along(centre, i), float64(-(size / 2)))
		return And(GreaterOrEqual(i, from), LessThan(i, AddScalar(from, float64(size))))
	}
	hole := InsertAxes(And(in(rows, row), in(columns, column)), -1)
	return Where(BroadcastToDims(hole, d...), ZerosLike(x), x)
}

// ColorJitter changes the brightness and the contrast of each image, whose pixels are 0 to 1
// and stay so, by factors of 1-a to 1+a, while the net is trained.
type ColorJitter struct {
	Name                 string
	Brightness, Contrast float64 // a, of 0 to 1
}

// Title names the layer.
func (l ColorJitter) Title() (name, kind string) { return l.Name, "ColorJitter" }

func (l ColorJitter) check() error {
	for name, a := range map[string]float64{"Brightness": l.Brightness, "Contrast": l.Contrast} {
		if !(a >= 0 && a <= 1) {
			return fmt.Errorf("%s is %g: want 0 to 1", name, a)
		}
	}
	if l.Brightness == 0 && l.Contrast == 0 {
		return errors.New("Brightness and Contrast are 0: want some, else it does nothing")
	}
	return nil
}

// Apply takes x shaped [n height width channels], of one channel or of red, green and blue.
func (l ColorJitter) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if c := lastAxis(x); c != 1 && c != 3 {
		panic(fmt.Errorf("got %d channels: want 1, or 3: red, green and blue", c))
	}
	if !augments(scope, x) {
		return x
	}
	if l.Brightness > 0 {
		x = brightness(x, draw(scope, x, 1-l.Brightness, 1+l.Brightness))
	}
	if l.Contrast > 0 {
		x = contrast(x, draw(scope, x, 1-l.Contrast, 1+l.Contrast))
	}
	return x
}

// brightness and contrast change images by factors [n], as torchvision does.
func brightness(x, by *Node) *Node { return ClipScalar(Mul(x, like(by, x)), 0, 1) }

func contrast(x, by *Node) *Node {
	gray := x
	if lastAxis(x) == 3 {
		weights := ConvertDType(Const(x.Graph(), []float32{0.2989, 0.587, 0.114}), x.DType())
		gray = ReduceAndKeep(Mul(x, ExpandLeftToRank(weights, 4)), ReduceSum, -1)
	}
	mean := ReduceAndKeep(gray, ReduceMean, 1, 2, 3)
	return ClipScalar(Add(mean, Mul(Sub(x, mean), like(by, x))), 0, 1)
}

// Normalize subtracts a mean from each channel, the last axis, and divides by a deviation,
// always.
type Normalize struct {
	Name            string
	Mean, Deviation []float64 // of each channel, or one for all
}

// Title names the layer.
func (l Normalize) Title() (name, kind string) { return l.Name, "Normalization" }

func (l Normalize) check() error {
	if len(l.Mean) == 0 || len(l.Mean) != len(l.Deviation) {
		return fmt.Errorf("Mean has %d numbers and Deviation %d: want as many, one for each channel or one for all", len(l.Mean), len(l.Deviation))
	}
	for i, d := range l.Deviation {
		if !(d > 0) || math.IsInf(d, 0) || math.IsNaN(l.Mean[i]) || math.IsInf(l.Mean[i], 0) {
			return fmt.Errorf("Mean %g and Deviation %g: want finite numbers, and a deviation of more than 0", l.Mean[i], d)
		}
	}
	return nil
}

// Apply takes x shaped [n … channels].
func (l Normalize) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	if c := lastAxis(x); len(l.Mean) != 1 && len(l.Mean) != c {
		panic(fmt.Errorf("got %d channels: want %d, as many as Mean has", c, len(l.Mean)))
	}
	numbers := func(l []float64) *Node {
		return ExpandLeftToRank(ConvertDType(Const(x.Graph(), l), x.DType()), x.Rank())
	}
	return Div(Sub(x, numbers(l.Mean)), numbers(l.Deviation))
}

// augments says whether images are changed, and refuses what is none.
func augments(scope *model.Scope, x *Node) bool {
	images(x)
	return scope.IsTraining(x.Graph())
}

// draw is a random number for each image, float32 [n].
func draw(scope *model.Scope, x *Node, low, high float64) *Node {
	random := scope.RandomUniform(x.Graph(), shapes.Make(dtypes.Float32, x.Shape().Dimensions[0]))
	return AddScalar(MulScalar(random, high-low), low)
}

// each is numbers [n] as [n 1 1 1]; like is that in the type of x.
func each(v *Node) *Node { return Reshape(v, v.Shape().Dimensions[0], 1, 1, 1) }

func like(v, x *Node) *Node { return ConvertDType(each(v), x.DType()) }

// along is numbers [n] for all pixels of [n height width].
func along(v, pixels *Node) *Node {
	d := pixels.Shape().Dimensions
	return BroadcastToDims(Reshape(v, d[0], 1, 1), d...)
}

// grid is the row and the column of each pixel [n height width].
func grid(g *Graph, dtype dtypes.DType, n, height, width int) (rows, columns *Node) {
	shape := shapes.Make(dtype, n, height, width)
	return Iota(g, shape, 1), Iota(g, shape, 2)
}

// pixels are those of images at rows and columns, int32 [n height width]; 0 outside.
func pixels(x, rows, columns *Node) *Node {
	d, to := x.Shape().Dimensions, rows.Shape().Dimensions
	inside := func(i *Node, side int) *Node {
		return And(GreaterOrEqual(i, ZerosLike(i)), LessThan(i, Scalar(i.Graph(), dtypes.Int32, side)))
	}
	clip := func(i *Node, side int) *Node { return ClipScalar(i, 0, float64(side-1)) }
	number := Iota(x.Graph(), rows.Shape(), 0)
	at := Add(MulScalar(Add(MulScalar(number, float64(d[1])), clip(rows, d[1])), float64(d[2])), clip(columns, d[2]))
	y := Gather(Reshape(x, d[0]*d[1]*d[2], d[3]), InsertAxes(at, -1))
	there := InsertAxes(And(inside(rows, d[1]), inside(columns, d[2])), -1)
	return Where(BroadcastToDims(there, to[0], to[1], to[2], d[3]), y, ZerosLike(y))
}

func repeated[T any](v T, n int) []T {
	l := make([]T, n)
	for i := range l {
		l[i] = v
	}
	return l
}
