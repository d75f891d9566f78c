package triton

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// For runs body for i = from, from+step, … below to, which are int32 scalars.
// carried is what the first turn gets; each turn returns what the next gets,
// and For what the last returned. Loops with Dot overlap their loads with
// earlier turns, see Kernel.Stages.
func (b *Block) For(from, to, step any, carried []Value, body func(i Value, carried []Value) []Value) []Value {
	index := Type{DType: dtypes.Int32}
	var bounds [3]string
	for k, x := range []any{from, to, step} {
		v := b.operand("For", x, index)
		if !v.typ.equal(index) {
			b.refuse("For", "got a bound of %s, want an int32 scalar", v.typ)
		}
		if v.number != nil && k == 2 && *v.number < 1 {
			b.refuse("For", "got a step of %v, want 1 or more", *v.number)
		}
		bounds[k] = v.name
	}
	results := make([]Value, len(carried))
	types := make([]string, len(carried))
	name := b.fresh()
	for k, c := range carried {
		c.use("For")
		types[k] = c.typ.String()
		results[k] = Value{b: b, name: name, typ: c.typ, home: b.open, base: c.base}
		if len(carried) > 1 {
			results[k].name = fmt.Sprintf("%s#%d", name, k)
		}
	}
	outer := b.open
	b.enter()
	i := b.value(index)
	inner := make([]Value, len(carried))
	pairs := make([]string, len(carried))
	for k, c := range carried {
		inner[k] = b.value(c.typ).in(c)
		pairs[k] = inner[k].name + " = " + c.name
	}
	head := fmt.Sprintf("scf.for %s = %s to %s step %s", i.name, bounds[0], bounds[1], bounds[2])
	switch len(carried) {
	case 0:
	case 1:
		head = fmt.Sprintf("%s = %s iter_args(%s) -> (%s)", name, head, pairs[0], types[0])
	default:
		head = fmt.Sprintf("%s:%d = %s iter_args(%s) -> (%s)", name, len(carried), head, strings.Join(pairs, ", "), strings.Join(types, ", "))
	}
	b.lines = append(b.lines, strings.Repeat("  ", outer.depth)+head+" : i32 {")
	b.yield("For", carried, body(i, inner), types)
	b.leave()
	b.line("}")
	return results
}

// yield ends a region with its results.
func (b *Block) yield(op string, want, got []Value, types []string) {
	if len(got) != len(want) {
		b.refuse(op, "got %d results of the body, want %d", len(got), len(want))
	}
	names := make([]string, len(got))
	for k, v := range got {
		v.use(op)
		if !v.typ.equal(want[k].typ) {
			b.refuse(op, "got %s for result %d of the body, want %s", v.typ, k, want[k].typ)
		}
		names[k] = v.name
	}
	if len(got) > 0 {
		b.line("scf.yield %s : %s", strings.Join(names, ", "), strings.Join(types, ", "))
	}
}

// If runs yes when condition, a bool scalar, holds, and no, which may be nil,
// when it does not. They have effects and no results.
func (b *Block) If(condition Value, yes, no func()) {
	condition.use("If")
	if !condition.typ.equal(Type{DType: dtypes.Bool}) {
		b.refuse("If", "got %s, want a bool scalar; choose between tiles with Select", condition.typ)
	}
	b.line("scf.if %s {", condition.name)
	b.enter()
	yes()
	b.leave()
	if no != nil {
		b.line("} else {")
		b.enter()
		no()
		b.leave()
	}
	b.line("}")
}
