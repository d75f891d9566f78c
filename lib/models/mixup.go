package models

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
)

// MixUp makes each example a mixture with another one of the batch while the net is trained,
// and package fit the loss the same mixture of the losses for both targets (Zhang et al.,
// 2018). A batch has one share, 0.5 to 1, of the examples themselves: of λ drawn from
// Beta(Alpha, Alpha), and 1-λ, the larger one. A net has one MixUp at most.
type MixUp struct {
	Name  string
	Alpha float64 // default: 0.2
}

// Title names the layer.
func (l MixUp) Title() (name, kind string) { return l.Name, "MixUp" }

func (l MixUp) check() error {
	if !(l.Alpha >= 0 && l.Alpha <= 100) || l.Alpha > 0 && l.Alpha < 0.01 {
		return fmt.Errorf("Alpha is %g: want 0.01 to 100, or 0 for 0.2", l.Alpha)
	}
	return nil
}

// Apply takes x shaped [n …], of any floats.
func (l MixUp) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if !x.DType().IsFloat() {
		panic(fmt.Errorf("got an input of %s: want floats, which can be mixed", x.DType()))
	}
	g := x.Graph()
	if !scope.IsTraining(g) {
		return x
	}
	if v, _ := model.GetGraphParam(g, mixed); v != nil {
		panic(fmt.Errorf("got a second MixUp: want one, for targets are mixed once"))
	}
	share := largerShare(scope.RandomUniform(g, shapes.Make(dtypes.Float32)), cmp.Or(l.Alpha, 0.2))
	model.SetGraphParam(g, mixed, share)
	return Mix(share, x, gradient.Reversed(x, 0))
}

const mixed = "/gaiden/mixup"

// Mixed is the share that a MixUp layer has given the examples of a graph's last batch; the
// others are those of the batch in reverse. It is nil if there was none. Asking takes it.
func Mixed(g *Graph) *Node {
	v, _ := model.GetGraphParam(g, mixed)
	share, is := v.(*Node)
	if is {
		model.SetGraphParam(g, mixed, nil)
	}
	return share
}

// Mix is share·a + (1-share)·b.
func Mix(share, a, b *Node) *Node {
	share = ConvertDType(share, a.DType())
	return Add(Mul(a, share), Mul(b, OneMinus(share)))
}

// betaSteps is how many steps the table of a distribution has.
const betaSteps = 256

// largerShare makes the larger of λ and 1-λ, λ of Beta(α, α), of uniform numbers.
//
// The smaller one, x, has the density (x·(1-x))^(α-1) on 0 to ½; of u = x^α it is
// (1-u^(1/α))^(α-1), which is smooth.
func largerShare(uniform *Node, alpha float64) *Node {
	most := math.Pow(0.5, alpha)
	const parts = 64 * betaSteps
	sums := make([]float64, parts+1) // of the density up to u = most·i/parts
	for i := range parts {
		u := most * (float64(i) + 0.5) / parts
		sums[i+1] = sums[i] + math.Pow(1-math.Pow(u, 1/alpha), alpha-1)
	}
	table := make([]float32, betaSteps+1)
	for i, k := 0, 0; i <= betaSteps; i++ {
		want := sums[parts] * float64(i) / betaSteps
		for k < parts-1 && sums[k+1] < want {
			k++
		}
		table[i] = float32(most * (float64(k) + (want-sums[k])/(sums[k+1]-sums[k])) / parts)
	}
	g := uniform.Graph()
	at := MulScalar(uniform, betaSteps)
	low := MinScalar(Floor(at), betaSteps-1)
	numbers := Const(g, table)
	entry := func(i *Node) *Node { return Gather(numbers, InsertAxes(ConvertDType(i, dtypes.Int32), -1)) }
	a, b := entry(low), entry(AddScalar(low, 1))
	u := Add(a, Mul(Sub(b, a), Sub(at, low)))
	return OneMinus(Pow(MaxScalar(u, 1e-37), Scalar(g, dtypes.Float32, 1/alpha)))
}
