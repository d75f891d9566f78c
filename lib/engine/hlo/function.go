package hlo

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
)

// Function is main, a function made by NewFunction, or a closure.
// It implements compute.Function.
type Function struct {
	notimplemented.Function // answers for GoMLX's fused and dynamic ops

	builder    *Builder
	name       string    // "" for a closure
	parent     *Function // that Closure was called on; nil unless a closure
	params     []*value
	names      []string // of the parameters
	statements []*statement
	outputs    []*value
	returned   bool
	captures   []*Function       // functions whose values are used here; closures only
	adopted    map[*value]*value // ops of ended closures, made again here
}

var _ compute.Function = (*Function)(nil)

func (f *Function) Name() string { return f.name }

func (f *Function) Builder() compute.Builder { return f.builder }

// Parent returns the function that a closure was made from; nil for others.
func (f *Function) Parent() compute.Function {
	if f.parent == nil {
		return nil
	}
	return f.parent
}

// Closure returns a new function for While, If or Sort. It belongs to whatever
// op uses it, which need not be one of f.
func (f *Function) Closure() (compute.Function, error) {
	if f.builder.finished {
		return nil, f.builder.errFinished("Closure")
	}
	return f.builder.newFunction("", f), nil
}

// called is how messages name f.
func (f *Function) called() string {
	if f.name == "" {
		return "a closure"
	}
	return fmt.Sprintf("function %q", f.name)
}

func (f *Function) Shape(v compute.Value) (shapes.Shape, error) { return f.builder.OpShape(v) }

// Parameter adds an input. The name is for messages and, in main, must be new.
func (f *Function) Parameter(name string, shape shapes.Shape, sharding *compute.ShardingSpec) (compute.Value, error) {
	if err := f.open("Parameter"); err != nil {
		return nil, err
	}
	if err := writable("Parameter "+name, shape); err != nil {
		return nil, err
	}
	if err := f.builder.checkShardings("Parameter "+name, sharding); err != nil {
		return nil, err
	}
	if f.name == compute.MainName && slices.Contains(f.names, name) {
		return nil, fmt.Errorf("hlo: Parameter: main has one named %q already", name)
	}
	if f.builder.absent[name] {
		return f.zeros(shape)
	}
	v := &value{builder: f.builder, home: f, shape: shape.Clone(), index: len(f.params)}
	f.params = append(f.params, v)
	f.names = append(f.names, name)
	return v, nil
}

// Constant adds a constant of the given flat values (row-major) and
// dimensions; no dimensions make a scalar. The values are copied.
func (f *Function) Constant(flat any, dims ...int) (compute.Value, error) {
	if err := f.open("Constant"); err != nil {
		return nil, err
	}
	literal, shape, err := denseLiteral(flat, dims)
	if err != nil {
		return nil, err
	}
	v := f.constant(literal, shape)
	v.integer = scalarInteger(flat, dims)
	return v, nil
}

// zeros is a constant of one number, whatever its shape.
func (f *Function) zeros(shape shapes.Shape) (compute.Value, error) {
	literal, _, err := denseLiteral(reflect.MakeSlice(reflect.SliceOf(shape.DType.GoType()), 1, 1).Interface(), nil)
	if err != nil {
		return nil, err
	}
	return f.constant(literal, shape.Clone()), nil
}

func (f *Function) constant(literal string, shape shapes.Shape) *value {
	return &value{builder: f.builder, home: f, shape: shape, literal: literal}
}

// Return ends the function with its outputs, at least one.
func (f *Function) Return(outputs []compute.Value, shardings []*compute.ShardingSpec) error {
	if len(outputs) == 0 {
		return fmt.Errorf("hlo: Return: %s has no outputs, want at least one", f.called())
	}
	if err := f.builder.checkShardings("Return", shardings...); err != nil {
		return err
	}
	outs, err := f.operands("Return", outputs...)
	if err != nil {
		return err
	}
	f.outputs = outs
	f.returned = true
	return nil
}

// open reports why nothing can be added to f any more.
func (f *Function) open(op string) error {
	if f.builder.finished {
		return f.builder.errFinished(op)
	}
	if f.returned {
		return fmt.Errorf("hlo: %s: %s has returned already; nothing can be added to it", op, f.called())
	}
	return nil
}

// operands checks the operands of an op of f and returns them as ours.
func (f *Function) operands(op string, vs ...compute.Value) ([]*value, error) {
	if err := f.open(op); err != nil {
		return nil, err
	}
	all := make([]*value, len(vs))
	for i, v := range vs {
		ours, err := f.builder.value(op, v)
		if err != nil {
			return nil, err
		}
		if all[i], err = f.adopt(op, ours); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// adopt returns v, or what stands for v in f.
func (f *Function) adopt(op string, v *value) (*value, error) {
	switch {
	case v.isConstant() || v.home == f:
		return v, nil
	case !v.home.returned:
		return v, f.capture(op, v.home)
	}
	if v.isParameter() {
		return nil, fmt.Errorf("hlo: %s: got a parameter of %s that has ended; return it from there instead",
			op, v.home.called())
	}
	if a := f.adopted[v]; a != nil {
		return a, nil
	}
	s := *v.stmt
	s.in = make([]*value, len(v.stmt.in))
	for i, in := range v.stmt.in {
		var err error
		if s.in[i], err = f.adopt(op, in); err != nil {
			return nil, err
		}
	}
	for _, r := range s.regions {
		if err := f.attach(op, r); err != nil {
			return nil, err
		}
	}
	if f.adopted == nil {
		f.adopted = map[*value]*value{}
	}
	for i, out := range f.add(&s, shapesOf(v.stmt.out)...) {
		f.adopted[v.stmt.out[i]] = out
	}
	s.label = v.stmt.label
	return f.adopted[v], nil
}

// capture notes that f uses values of home. Whether home encloses f is known
// when an op takes f as its region: see attach.
func (f *Function) capture(op string, home *Function) error {
	if f.name != "" {
		return fmt.Errorf("hlo: %s: %s uses a value of %s; pass it as an argument, or return it from there",
			op, f.called(), home.called())
	}
	if home.returned {
		return fmt.Errorf("hlo: %s: uses a value of %s that has ended; return it from there instead", op, home.called())
	}
	if !slices.Contains(f.captures, home) {
		f.captures = append(f.captures, home)
	}
	return nil
}

// attach makes region, a closure that has returned, part of an op of f.
func (f *Function) attach(op string, region *Function) error {
	for _, home := range region.captures {
		if home == f {
			continue
		}
		if err := f.capture(op, home); err != nil {
			return err
		}
	}
	return nil
}

// region returns a closure that op may use, with its parameters and outputs
// checked; wantOut is nil where any outputs will do.
func (f *Function) region(op, role string, c compute.Function, wantIn, wantOut []shapes.Shape) (*Function, error) {
	r, ok := c.(*Function)
	if !ok || r == nil || r.builder != f.builder {
		return nil, fmt.Errorf("hlo: %s: %s: got %T, want a closure of the same builder", op, role, c)
	}
	if r.name != "" {
		return nil, fmt.Errorf("hlo: %s: %s: got %s, want a closure", op, role, r.called())
	}
	if !r.returned {
		return nil, fmt.Errorf("hlo: %s: %s has not returned; call Return first", op, role)
	}
	if got := shapesOf(r.params); !equalShapes(got, wantIn) {
		return nil, fmt.Errorf("hlo: %s: %s takes %v, want %v", op, role, got, wantIn)
	}
	if got := shapesOf(r.outputs); wantOut != nil && !equalShapes(got, wantOut) {
		return nil, fmt.Errorf("hlo: %s: %s returns %v, want %v", op, role, got, wantOut)
	}
	return r, f.attach(op, r)
}

func equalShapes(a, b []shapes.Shape) bool {
	return slices.EqualFunc(a, b, func(x, y shapes.Shape) bool {
		return x.DType == y.DType && slices.Equal(x.Dimensions, y.Dimensions)
	})
}

// add appends a statement with results of the given shapes.
func (f *Function) add(s *statement, results ...shapes.Shape) []*value {
	s.label = f.builder.label
	if s.cost.Bytes == 0 && s.cost != (Cost{}) { // an op on each element reads and writes them all
		for _, in := range s.in {
			if !in.isSplat() {
				s.cost.Bytes += bytesOf(in.shape)
			}
		}
		s.cost.Bytes += bytesOf(results...)
	}
	s.out = make([]*value, len(results))
	for i, shape := range results {
		s.out[i] = &value{builder: f.builder, home: f, shape: shape, stmt: s, index: i}
	}
	f.statements = append(f.statements, s)
	return s.out
}

// one appends a statement with one result.
func (f *Function) one(s *statement, result shapes.Shape) *value {
	return f.add(s, result)[0]
}

// values returns our values as GoMLX knows them.
func values(vs []*value) []compute.Value {
	all := make([]compute.Value, len(vs))
	for i, v := range vs {
		all[i] = v
	}
	return all
}

// infer runs GoMLX's shape inference, whose panics on odd arguments become
// errors here.
func infer(op string, rule func() (shapes.Shape, error)) (shape shapes.Shape, err error) {
	defer func() {
		if r := recover(); r != nil {
			shape, err = shapes.Invalid(), fmt.Errorf("hlo: %s: %v", op, r)
		}
	}()
	shape, err = rule()
	if err != nil {
		return shape, fmt.Errorf("hlo: %s: %w", op, err)
	}
	// Axis names are for dynamic shapes, which there are none of here.
	return shapes.Shape{DType: shape.DType, Dimensions: shape.Dimensions}, writable(op, shape)
}
