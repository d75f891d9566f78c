package losses

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Joint is the loss of a net with several results, which it has joined with Concatenate along
// the last axis, [n sizes]: the weighted sum of a loss for each. The targets are joined alike,
// as floats [n targets], and so may be weights of them: 0 where a result is not known.
//
//	Loss: losses.Joint{
//		{Name: "class", Size: 10, Loss: losses.CrossEntropy{}},        // a label
//		{Name: "box", Size: 4, Loss: losses.Huber{}, Weight: 0.5}} // four numbers
type Joint []Part

// Part is a result of a net, and its loss.
type Part struct {
	Name   string
	Size   int // numbers of the net's output
	Loss   Loss
	Weight float64 // default: 1
}

// Title names the losses.
func (l Joint) Title() string {
	var all []string
	for _, p := range l {
		all = append(all, p.Name+" "+p.Loss.Title())
	}
	return strings.Join(all, " and ")
}

// targets is how many of the targets are the part's.
func (p Part) targets() int {
	if _, is := p.Loss.(CrossEntropy); is {
		return 1
	}
	return p.Size
}

// Find is where the results and the targets of a part are, each from one number to before
// another, and its loss; nil: there is no such part.
func (l Joint) Find(name string) (output, y [2]int, loss Loss) {
	from, at := 0, 0
	for _, p := range l {
		if p.Name == name {
			return [2]int{from, from + p.Size}, [2]int{at, at + p.targets()}, p.Loss
		}
		from, at = from+p.Size, at+p.targets()
	}
	return output, y, nil
}

func (l Joint) check(int) error {
	if len(l) == 0 {
		return fmt.Errorf("no parts: want at least one")
	}
	for i, p := range l {
		switch {
		case p.Size < 1:
			return fmt.Errorf("part %d, %s: Size is %d: want 1 or more", i+1, p.Name, p.Size)
		case p.Loss == nil:
			return fmt.Errorf("part %d, %s: it has no Loss", i+1, p.Name)
		case !(p.Weight >= 0) || math.IsInf(p.Weight, 0):
			return fmt.Errorf("part %d, %s: Weight is %g: want more than 0, or 0 for 1", i+1, p.Name, p.Weight)
		}
		if _, nested := p.Loss.(Joint); nested {
			return fmt.Errorf("part %d, %s: its Loss is a Joint: want the parts in this one", i+1, p.Name)
		}
		classes := 0
		if p.targets() == 1 {
			classes = p.Size
		}
		if err := Check(p.Loss, classes); err != nil {
			return fmt.Errorf("part %d, %s: %w", i+1, p.Name, err)
		}
	}
	return nil
}

// CheckTargets says which sizes of targets, numbers of examples, and of a net's output are none
// for the parts.
func (l Joint) CheckTargets(targets, examples, output int) error {
	size, width := 0, 0
	for _, p := range l {
		size, width = size+p.Size, width+p.targets()
	}
	if output != size {
		return fmt.Errorf("the net returns %d numbers: the parts of losses.Joint want %d", output, size)
	}
	if targets != examples*width {
		return fmt.Errorf("%d target numbers for %d examples: the parts of losses.Joint want %d for each, one of a CrossEntropy and as many as the Size of others", targets, examples, width)
	}
	return nil
}

// wants is what the targets of a column must be, "" where t is one.
func (l Joint) wants(column int, t float32) string {
	for _, p := range l {
		if column -= p.targets(); column >= 0 {
			continue
		}
		want := Wants(p.Loss, 0, t)
		if c, labels := p.Loss.(CrossEntropy); labels && (t != float32(math.Trunc(float64(t))) || t >= float32(p.Size) || t < 0 && !c.IgnoreNegative) {
			want = fmt.Sprintf("a label, 0 to %d", p.Size-1)
		}
		if want != "" {
			return fmt.Sprintf("%s, in part %s", want, p.Name)
		}
		return ""
	}
	return ""
}

// Apply takes out [n sizes], y [n targets], and v of the examples [n] or of the targets. The
// loss of a part is the weighted mean of its own targets: 0 where none of a batch counts.
func (l Joint) Apply(out, y, v *Node) (loss, weight *Node) {
	if err := l.check(0); err != nil {
		panic(fmt.Errorf("losses.Joint: %w", err))
	}
	if out.Rank() != 2 || y == nil || y.Rank() != 2 {
		targets := "nil"
		if y != nil {
			targets = y.Shape().String()
		}
		panic(fmt.Errorf("losses.Joint: the net returns %s and the targets are %s: want both of rank 2", out.Shape(), targets))
	}
	n, from, at := out.Shape().Dimensions[0], 0, 0
	for _, p := range l {
		columns := AxisRange(at, at+p.targets())
		part, t, u := Slice(out, AxisRange(), AxisRange(from, from+p.Size)), Slice(y, AxisRange(), columns), v
		if v != nil && v.Rank() == 2 {
			u = Slice(v, AxisRange(), columns)
		}
		if _, labels := p.Loss.(CrossEntropy); labels {
			if u != nil {
				u = Reshape(u, n)
			}
			t = ConvertDType(seen(Reshape(t, n), u), dtypes.Int32)
		}
		one, w := p.Loss.Apply(part, t, u)
		if w != nil { // the batch's loss is the mean of what is returned here
			one = perWeight(MulScalar(one, float64(n)), w)
		}
		if one = MulScalar(one, cmp.Or(p.Weight, 1)); loss == nil {
			loss = one
		} else {
			loss = Add(loss, one)
		}
		from, at = from+p.Size, at+p.targets()
	}
	return loss, nil
}
