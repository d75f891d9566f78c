package fit

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
)

// shift has a weight for each pixel, whose gradient is the images', and leaves them as
// they are.
type shift struct{}

func (shift) Title() (name, kind string) { return "shift", "Shift" }

func (shift) Apply(scope *model.Scope, x *Node) *Node {
	d := x.Shape().Dimensions[1:]
	v := scope.VariableWithShape("weights", shapes.Make(dtypes.Float32, d...)).NodeValue(x.Graph())
	return Add(x, ExpandAxes(Sub(v, StopGradient(v)), 0))
}

// TestOverlappingPools holds that windows that lie over each other, on padding, or
// apart give what XLA's select-and-scatter gives, and that equal maxima count once.
func TestOverlappingPools(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, tt := range []struct{ height, width, window, stride, pad int }{
		{12, 12, 3, 2, 1}, // ResNet's
		{11, 11, 3, 2, 0}, // AlexNet's
		{12, 10, 3, 2, 0}, // a row and a column that no window needs
		{9, 7, 3, 1, 1},
		{9, 9, 2, 3, 0}, // apart
		{8, 9, 2, 2, 0}, // side by side
		{9, 10, 3, 3, 0},
		{8, 8, 4, 4, 2},    // side by side, and on padding
		{17, 17, 17, 1, 8}, // more places than a byte counts
	} {
		d := formulaData("SeedCNN", 4, tt.height*tt.width*2, 0)
		x := d.X.([]float32)
		for k := range x {
			x[k] = float32(math.Floor(float64(4*x[k])))/4 - 1 // many equal maxima, less than zeros around them
		}
		for last := tt.height * tt.width * 2; last <= len(x); last += tt.height * tt.width * 2 {
			x[last-1] = 0 // one that is alone, at a window's end
		}
		var loss [2]float64
		var gradients [2]map[string][]float32
		for k, gradient := range []models.Pooling{models.SelectAndScatter, models.Mask} {
			net := models.Net{Name: "net", Input: []int{tt.height, tt.width, 2}, Layers: []models.Layer{
				shift{},
				models.MaxPool2D{Name: "p1", Window: tt.window, Stride: tt.stride, Pad: tt.pad, Gradient: gradient},
				models.Flatten{Name: "f"},
				models.Dense{Name: "output", Units: 10}}}
			loss[k], gradients[k] = oneStep(t, attach(t, s, fmt.Sprintf("pool%d.%d", i, k), net, Config{FirstLook: true}), d, 4)
		}
		if math.Abs(loss[0]-loss[1]) > 1e-6 {
			t.Errorf("%+v: got loss %v, want %v", tt, loss[1], loss[0])
		}
		compare(t, gradients[1], gradients[0], 1e-5)
	}
}
