package optim

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/compute/shapes"

	"gaiden/lib/elementwise"
)

// Groups gives variables settings by their names, as PyTorch's parameter groups do. Its steps
// run on XLA's kernels.
type Groups struct {
	Optimizer Optimizer // of what is in no group; the groups' rates are in proportion to its
	Groups    []Group   // a variable is in the first that has its name
}

// Group is some variables of a net.
type Group struct {
	// Names are layers, such as "conv1", or patterns of variables, in which * stands for any
	// text: "body/*", "*/biases". A net's Weights lists the variables.
	Names  []string
	Frozen bool    // they do not change, nor do a frozen layer's running means; they have no optimizer arrays
	Rate   float64 // factor of the learning rate; default: 1
	Decay  float64 // factor of the weight decay; default: 1
	// NoDecay leaves weight decay out, as is usual for biases and norms.
	NoDecay   bool
	Optimizer Optimizer // default: that of Groups
}

// Has says whether a variable's name is one of the group's.
func (g Group) Has(variable string) bool {
	return slices.ContainsFunc(g.Names, func(pattern string) bool { return matches(pattern, variable) })
}

// matches says whether a variable has the form of a pattern, or is one of the layer that it names.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name || strings.HasPrefix(name, pattern+"/")
	}
	rest, is := strings.CutPrefix(name, parts[0])
	for _, p := range parts[1 : len(parts)-1] {
		if is {
			_, rest, is = strings.Cut(rest, p)
		}
	}
	return is && strings.HasSuffix(rest, parts[len(parts)-1])
}

// Unused is a pattern that none of a net's variables has, "" if there is none.
func Unused(o Optimizer, variables []string) (pattern string) {
	switch o := o.(type) {
	case Groups:
		for _, g := range o.Groups {
			for _, p := range g.Names {
				used := false
				for _, v := range variables {
					used = used || matches(p, v)
				}
				if !used {
					return p
				}
			}
		}
	case wrapper:
		return Unused(o.inner(), variables)
	}
	return ""
}

// Rate is the learning rate of what is in no group.
func (o Groups) Rate() float64 { return o.Optimizer.Rate() }

// Rule is none: there are several.
func (o Groups) Rule() *elementwise.Rule { return nil }

func (o Groups) inner() Optimizer               { return o.Optimizer }
func (o Groups) with(inner Optimizer) Optimizer { return Groups{inner, o.Groups} }

func (o Groups) choose(variable string, shape shapes.Shape) Optimizer {
	for _, g := range o.Groups {
		if !g.Has(variable) {
			continue
		}
		if g.Frozen {
			return nil
		}
		inner, factor := o.Optimizer, cmp.Or(g.Rate, 1)
		if g.Optimizer != nil {
			inner, factor = g.Optimizer, factor*proportion(g.Optimizer, o.Optimizer)
		}
		decay := cmp.Or(g.Decay, 1)
		if g.NoDecay {
			decay = 0
		}
		return around(inner, variable, shape, func(inner Optimizer) Optimizer { return scaled{withDecay(inner, decay), factor} })
	}
	return For(o.Optimizer, variable, shape)
}

// proportion is the rate of an optimizer by that of the one whose rate a run sets.
func proportion(o, set Optimizer) float64 {
	if set.Rate() == 0 {
		return 1
	}
	return o.Rate() / set.Rate()
}

// scaled is an optimizer with a factor of its learning rate.
type scaled struct {
	Optimizer
	factor float64
}

func (o scaled) inner() Optimizer               { return o.Optimizer }
func (o scaled) with(inner Optimizer) Optimizer { return scaled{inner, o.factor} }
func (o scaled) factorOfRate() elementwise.Expr { return elementwise.Number(o.factor) }
func (o scaled) Rule() *elementwise.Rule        { return ratedRule(o.Optimizer, o.factorOfRate()) }

// decays is an optimizer whose default for a WeightDecay of 0 is another one.
type decays interface{ decay() float64 }

// undecayed is an AdamW or a Muon without weight decay, whose zero means their default.
const undecayed = math.SmallestNonzeroFloat32

// withDecay is an optimizer with another weight decay, if it has one.
func withDecay(o Optimizer, factor float64) Optimizer {
	switch o := o.(type) {
	case wrapper:
		return o.with(withDecay(o.inner(), factor))
	case orthogonal:
		return orthogonal{withDecay(o.Muon, factor).(Muon)}
	}
	v := reflect.ValueOf(o)
	if factor == 1 || v.Kind() != reflect.Struct || !v.FieldByName("WeightDecay").IsValid() {
		return o
	}
	by := v.FieldByName("WeightDecay").Float()
	d, is := o.(decays)
	if is {
		by = d.decay()
	}
	if by *= factor; by == 0 && is {
		by = undecayed
	}
	changed := reflect.New(v.Type()).Elem()
	changed.Set(v)
	changed.FieldByName("WeightDecay").SetFloat(by)
	return changed.Interface().(Optimizer)
}

func (o Groups) check() error {
	if o.Optimizer == nil {
		return fmt.Errorf("Optimizer of optim.Groups is nil: want one, such as optim.AdamW{}")
	}
	for i, g := range o.Groups {
		wrong := func(x float64) bool { return !(x >= 0) || math.IsInf(x, 0) }
		switch {
		case len(g.Names) == 0:
			return fmt.Errorf("Names of group %d of optim.Groups are empty: want patterns of variables, such as \"*/biases\"", i)
		case wrong(g.Rate) || wrong(g.Decay):
			return fmt.Errorf("Rate %g, Decay %g of group %d (%s) of optim.Groups: want more than 0, or 0 for 1", g.Rate, g.Decay, i, g.Names[0])
		case g.NoDecay && g.Decay != 0:
			return fmt.Errorf("NoDecay and Decay %g of group %d (%s) of optim.Groups: want one of them", g.Decay, i, g.Names[0])
		case g.Frozen && (g.Rate != 0 || g.Decay != 0 || g.NoDecay || g.Optimizer != nil):
			return fmt.Errorf("group %d (%s) of optim.Groups is Frozen and has other settings: want one or the other", i, g.Names[0])
		}
		if _, is := g.Optimizer.(Clipped); is {
			return fmt.Errorf("Optimizer of group %d (%s) of optim.Groups is optim.Clipped: want Clipped around Groups, because it clips all gradients together", i, g.Names[0])
		}
		if g.Optimizer != nil {
			if err := Check(g.Optimizer); err != nil {
				return fmt.Errorf("group %d (%s): %w", i, g.Names[0], err)
			}
		}
	}
	return Check(o.Optimizer)
}
