package step

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gaiden/lib/session"
)

// Batch is some examples of a data set, by their numbers.
type Batch struct {
	Data     string // name of the set
	Examples []int32
}

// Gradients are the derivatives of a batch's loss by the weights of a net, as arrays of the
// device. Clip, Scale and Add change them in place and return them, so that they can be
// chained; an error is kept until Apply, or another call that returns one.
//
//	for batch := range train.Batches(64) {
//		if err := net.Apply(net.Gradients(batch).Clip(1)); err != nil {
//			return err
//		}
//	}
//
// Gradients of several batches are added up before a step by Add and Scale. Apply uses them up.
type Gradients struct {
	names  []string
	arrays []*session.Array
	loss   *session.Array
	owner  any
	do     Do
	err    error
}

// Do computes gradients of others on the device: what is scale, clip, limit, add, norm or
// norms.
type Do func(what string, g []*session.Array, by float64, other []*session.Array) ([]*session.Array, error)

// NewGradients is for package fit: gradients of a net, the owner, with the names of its weights.
func NewGradients(owner any, names []string, arrays []*session.Array, loss *session.Array, do Do, err error) *Gradients {
	return &Gradients{names, arrays, loss, owner, do, err}
}

// Take is for package fit: the arrays, which are then used up.
func (g *Gradients) Take(owner any) ([]*session.Array, error) {
	switch {
	case g == nil:
		return nil, fmt.Errorf("got no gradients: want those of Net.Gradients")
	case g.err != nil:
		return nil, g.err
	case g.owner != owner:
		return nil, fmt.Errorf("got gradients of another net: want those of this one's Gradients")
	}
	arrays := g.arrays
	g.arrays, g.err = nil, fmt.Errorf("gradients were applied already: want those of another call of Net.Gradients")
	return arrays, nil
}

// String says of which weights they are.
func (g *Gradients) String() string {
	if g.err != nil {
		return "no gradients: " + g.err.Error()
	}
	return "gradients of " + strings.Join(g.names, ", ")
}

// Names are the weights' names, such as conv/weights.
func (g *Gradients) Names() []string { return slices.Clone(g.names) }

// Err is what went wrong so far.
func (g *Gradients) Err() error { return g.err }

// Loss is the mean loss of the batch.
func (g *Gradients) Loss() (float64, error) { return g.read(g.loss) }

// Norm is the square root of the sum of all squares.
func (g *Gradients) Norm() (float64, error) {
	if g.err != nil {
		return 0, g.err
	}
	norm, err := g.do("norm", g.arrays, 0, nil)
	if err != nil {
		return 0, err
	}
	defer norm[0].Finalize()
	return g.read(norm[0])
}

// Norms is the norm of each weight's gradient, by its name: where one is far smaller or
// greater than the others, a layer does not learn, or is about to diverge.
func (g *Gradients) Norms() (map[string]float64, error) {
	if g.err != nil {
		return nil, g.err
	}
	out, err := g.do("norms", g.arrays, 0, nil)
	if err != nil {
		return nil, err
	}
	defer out[0].Finalize()
	values := make([]float32, len(g.names))
	if err := out[0].Values(values); err != nil {
		return nil, err
	}
	norms := map[string]float64{}
	for i, name := range g.names {
		norms[name] = float64(values[i])
	}
	return norms, nil
}

func (g *Gradients) read(a *session.Array) (float64, error) {
	if a == nil {
		return 0, g.err
	}
	var x [1]float32
	err := a.Values(x[:])
	return float64(x[0]), err
}

// Clip scales all together so that their norm is at most so much, as optim.Clipped does.
func (g *Gradients) Clip(norm float64) *Gradients { return g.change("clip", norm) }

// ClipValue limits each number to ±limit.
func (g *Gradients) ClipValue(limit float64) *Gradients { return g.change("limit", limit) }

// Scale multiplies all by a factor.
func (g *Gradients) Scale(factor float64) *Gradients { return g.change("scale", factor) }

func (g *Gradients) change(what string, by float64) *Gradients {
	if g.err == nil && (math.IsNaN(by) || math.IsInf(by, 0) || what != "scale" && by <= 0) {
		g.err = fmt.Errorf("gradients: %s by %g: want a finite number, and more than 0 to clip", what, by)
	}
	return g.replace(what, by, nil)
}

// Add adds others of the same net, such as those of another batch.
func (g *Gradients) Add(other *Gradients) *Gradients {
	switch {
	case g.err != nil:
		return g
	case other == nil || other.err == nil && other.owner != g.owner:
		g.err = fmt.Errorf("gradients: Add of those of another net: want the same net's")
	case other.err != nil:
		g.err = other.err
	}
	if g.err != nil {
		return g
	}
	return g.replace("add", 0, other.arrays)
}

func (g *Gradients) replace(what string, by float64, other []*session.Array) *Gradients {
	if g.err != nil {
		return g
	}
	next, err := g.do(what, g.arrays, by, other)
	if err != nil {
		g.err = err
		return g
	}
	for _, a := range g.arrays {
		a.Finalize()
	}
	g.arrays = next
	return g
}

// Values copies the gradient of a weight to the host.
func (g *Gradients) Values(name string) ([]float32, error) {
	if g.err != nil {
		return nil, g.err
	}
	i := slices.Index(g.names, name)
	if i < 0 {
		return nil, fmt.Errorf("gradients: no weight %q: want one of %q", name, g.names)
	}
	shape, err := g.arrays[i].Shape()
	if err != nil {
		return nil, err
	}
	x := make([]float32, shape.Size())
	return x, g.arrays[i].Values(x)
}
