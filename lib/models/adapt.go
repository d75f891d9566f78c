package models

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// LoRA adds x·a·b·Alpha/Rank to dense layers, with narrow matrices a [in Rank] and b [Rank out],
// for training these only (Hu et al., 2021):
//
//	net.LoRA = models.LoRA{Rank: 8}
//	optim.Groups{Optimizer: optim.AdamW{}, Groups: []optim.Group{{Names: []string{"*/lora_*"}}, {Names: []string{"*"}, Frozen: true}}}
//
// The variables are lora_a, which begins at random, and lora_b, which begins with zeros.
// weights.Map has Merge, which saves a net with the products added to its weights.
type LoRA struct {
	Rank  int      // 0: none
	Alpha float64  // default: Rank
	Names []string // patterns of dense layers; default: "*/query", "*/value"
}

// Scale is the factor of the product.
func (l LoRA) Scale() float64 { return cmp.Or(l.Alpha, float64(l.Rank)) / float64(max(1, l.Rank)) }

func (l LoRA) patterns() []string {
	if l.Rank > 0 && l.Names == nil {
		return []string{"*/query", "*/value"}
	}
	return l.Names
}

func (n Net) checkAdapt() error {
	l := n.LoRA
	err := usual("Rank", l.Rank, "none")
	switch {
	case err != nil:
		return fmt.Errorf("models: %s: LoRA: %w", n.Name, err)
	case !(l.Alpha >= 0) || math.IsInf(l.Alpha, 0):
		return fmt.Errorf("models: %s: LoRA: Alpha is %g: want more than 0, or 0 for Rank", n.Name, l.Alpha)
	case l.Rank == 0 && (l.Names != nil || l.Alpha != 0):
		return fmt.Errorf("models: %s: LoRA: Rank is 0: want 1 or more with Names or Alpha", n.Name)
	}
	return nil
}

// Adapted says whether a layer is not its weights alone, for LoRA or Int8; with no name,
// whether one of the net's is.
func (n Net) Adapted(layer string) bool {
	patterns := slices.Concat(n.LoRA.patterns(), n.Int8)
	return layer == "" && len(patterns) > 0 || patternOf(patterns, layer) != ""
}

// patternOf is the first of some patterns that a name has; "" if none.
func patternOf(patterns []string, name string) string {
	for _, p := range patterns {
		if regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + "$").MatchString(name) {
			return p
		}
	}
	return ""
}

// Unadapted is a pattern of LoRA or Int8 that no layer with such weights has, by the names of the net's
// variables; "": there is none.
func (n Net) Unadapted(variables []string) (pattern string) {
	for ending, patterns := range map[string][]string{"/lora_a": n.LoRA.patterns(), "/scales": n.Int8} {
		for _, p := range patterns {
			if !slices.ContainsFunc(variables, func(v string) bool {
				layer, is := strings.CutSuffix(v, ending)
				return is && patternOf([]string{p}, layer) != ""
			}) {
				return p
			}
		}
	}
	return ""
}

const adaptParam = "gaiden_adapt"

// adapt begins to build a net, whose dense layers then find it.
func (n Net) adapt(scope *model.Scope) {
	if n.Adapted("") {
		scope.SetParam(adaptParam, n)
	}
}

const typeParam = "gaiden_type"

// ComputeIn says in which type the layers of a scope compute; default: float32.
func ComputeIn(scope *model.Scope, t dtypes.DType) { scope.SetParam(typeParam, t) }

// computes is the type that ComputeIn has set: what a layer gives that has no numbers as input.
func computes(scope *model.Scope) dtypes.DType {
	x, _ := scope.GetParam(typeParam)
	if t, is := x.(dtypes.DType); is {
		return t
	}
	return dtypes.Float32
}

// adaptation says what a dense layer has besides x·weights.
func adaptation(scope *model.Scope) (lora *LoRA, int8 bool) {
	x, _ := scope.GetParam(adaptParam)
	n, is := x.(Net)
	if !is {
		return nil, false
	}
	name := strings.TrimPrefix(scope.Scope(), "/")
	if patternOf(n.LoRA.patterns(), name) != "" {
		lora = &n.LoRA
	}
	return lora, patternOf(n.Int8, name) != ""
}

// narrow is the product that LoRA adds for rows [n in].
func (l LoRA) narrow(scope *model.Scope, rows *Node, units int) *Node {
	g, in := rows.Graph(), rows.Shape().Dimensions[1]
	first := func(store *model.Store) model.VariableInitializer { return uniform(store, 1/math.Sqrt(float64(in))) }
	down := variable(scope, g, "lora_a", nil, first, in, l.Rank)
	up := variable(scope, g, "lora_b", nil, Fill(0), l.Rank, units)
	y := MatMul(MatMul(rows, ConvertDType(down, rows.DType())), ConvertDType(up, rows.DType()))
	return MulScalar(y, l.Scale())
}

// quantized is rows [n in] times weights that are int8 [in out], with a scale for each output.
func quantized(scope *model.Scope, rows *Node, units int) *Node {
	w, scale := int8Weights(scope, rows.Graph(), rows.Shape().Dimensions[1], units, units)
	y := MatMul(rows, ConvertDType(w, rows.DType()))
	return Mul(y, ExpandLeftToRank(ConvertDType(scale, rows.DType()), 2))
}

// int8Weights are weights [rows columns] and their scales, which are [columns], or [rows 1]. They
// are no variables that are trained: fit makes them of numbers that it loads.
func int8Weights(scope *model.Scope, g *Graph, rows, columns int, scales ...int) (w, scale *Node) {
	get := func(name string, first model.VariableInitializer, shape shapes.Shape) *Node {
		return scope.WithInitializer(first).VariableWithShape(name, shape).SetTrainable(false).NodeValue(g)
	}
	return get("weights", Zeros, shapes.Make(dtypes.Int8, rows, columns)), get("scales", Ones, shapes.Make(dtypes.Float32, scales...))
}
