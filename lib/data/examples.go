package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
)

// Examples is a set of examples on the host.
type Examples struct {
	// X is the examples, flat or nested, or an [Array]: []byte, which become 0 to 1, floats,
	// bools, or for a net of ids integers; [Inputs] for a net that has several.
	X any
	// Y is the targets: labels from 0 as []int32 or other integers, one an example or
	// position, or floats, as many an example as the net returns. CrossEntropy takes one-hot
	// rows too, other losses integers. [SameX]: the examples. nil: for losses of your own.
	Y any
	// V is weights, 0 or more, of examples or of each label or number of Y: the loss is the
	// weighted mean.
	V []float32
	// N is how many examples there are. It may be left out where X is nested, or a net says
	// how large an example is.
	N int
	// Encoder is how X and Y were made of rows, or has the names of Y's classes. A net keeps that
	// of the examples that it was last trained on: then Predict takes rows and names classes, and
	// Export writes it. nil: X and Y are numbers as they are.
	Encoder *Encoder
}

// Inputs are the examples of a net with several inputs, each in the form of Examples.X.
type Inputs map[string]any

// Same is the type of SameX.
type Same int

// SameX as Examples.Y says that the targets are the examples, as an autoencoder's are.
const SameX Same = 1

// Array is numbers with dimensions, the first of which counts examples.
type Array struct {
	Dims []int
	Flat any // a slice
}

// Len is how many examples there are, as N says or the nested X.
func (e Examples) Len() int {
	if e.N > 0 {
		return e.N
	}
	x := e.X
	if in, several := x.(Inputs); several {
		for _, x = range in {
			if n := nested(x); n >= 0 {
				return n
			}
		}
	}
	n := nested(x)
	if n < 0 {
		panic(fmt.Errorf("data: N is 0 and X a %T: want N, the number of examples, or X as rows", e.X))
	}
	return n
}

// nested is how many rows there are; -1 where x is flat.
func nested(x any) int {
	if a, is := x.(Array); is && len(a.Dims) > 0 {
		return a.Dims[0]
	}
	if v := reflect.ValueOf(x); v.IsValid() && (v.Kind() == reflect.Slice || v.Kind() == reflect.Array) {
		if k := v.Type().Elem().Kind(); k == reflect.Slice || k == reflect.Array {
			return v.Len()
		}
	}
	return -1
}

// First is the first n examples, or all if there are fewer. It shares memory with e.
func (e Examples) First(n int) Examples {
	first, _ := e.cut(firstOf(n, e.Len()))
	return first
}

func firstOf(n, all int) int {
	if n < 0 {
		panic(fmt.Errorf("data: First(%d): want 0 or more", n))
	}
	return min(n, all)
}

// Split is the first part of the examples, such as 0.9, and the others. They share memory
// with e. To split at random, shuffle before.
func (e Examples) Split(part float64) (first, others Examples) { return e.cut(splitAt(e.Len(), part)) }

func splitAt(n int, part float64) int {
	if !(part > 0 && part < 1) {
		panic(fmt.Errorf("data: Split(%g): want a part of the examples, more than 0 and less than 1", part))
	}
	at := int(math.Round(part * float64(n)))
	if at == 0 || at == n {
		panic(fmt.Errorf("data: Split(%g) of %d examples: one side has none: want more examples, or another part", part, n))
	}
	return at
}

func (e Examples) cut(at int) (first, others Examples) {
	n := e.Len()
	first = e.each(n, at, func(v reflect.Value, size int) reflect.Value { return v.Slice3(0, at*size, at*size) })
	others = e.each(n, n-at, func(v reflect.Value, size int) reflect.Value { return v.Slice(at*size, n*size) })
	return first, others
}

// SplitStratified is Split of the examples of each label by themselves, so that both parts
// have the same share of each class.
func (e Examples) SplitStratified(part float64) (first, others Examples, err error) {
	labels, is := e.Y.([]int32)
	if !is || len(labels) != e.Len() {
		return e, e, fmt.Errorf("data: SplitStratified: Y is a %T: want []int32, a label for each example", e.Y)
	}
	a, b, err := stratified(labels, part)
	if err != nil {
		return e, e, fmt.Errorf("data: SplitStratified: label %w", err)
	}
	return e.pick(a), e.pick(b), nil
}

// Shuffle is the examples in an order that the seed decides.
func (e Examples) Shuffle(seed int64) Examples { return e.pick(permutation(e.Len(), seed)) }

// pick is some of the examples, in an order.
func (e Examples) pick(index []int) Examples {
	return e.each(e.Len(), len(index), func(v reflect.Value, size int) reflect.Value {
		to := reflect.MakeSlice(v.Type(), len(index)*size, len(index)*size)
		for i, from := range index {
			reflect.Copy(to.Slice(i*size, (i+1)*size), v.Slice(from*size, (from+1)*size))
		}
		return to
	})
}

func permutation(n int, seed int64) []int {
	return rand.New(rand.NewPCG(uint64(seed), 0x73687566)).Perm(n)
}

// each makes other examples, now of them, of all arrays of n examples; change gets a slice
// and how many of its elements an example has.
func (e Examples) each(n, now int, change func(v reflect.Value, size int) reflect.Value) Examples {
	e.N = now
	part := func(what string, x any) any {
		a, shaped := x.(Array)
		if shaped {
			x = a.Flat
		}
		v := reflect.ValueOf(x)
		if !v.IsValid() || v.Kind() == reflect.Slice && v.IsNil() || v.Type() == reflect.TypeFor[Same]() {
			return x
		}
		if v.Kind() != reflect.Slice || n == 0 || v.Len()%n != 0 || v.Len() == 0 {
			panic(fmt.Errorf("data: %s is a %T, of %d examples: want a slice with the same number of elements for each", what, x, n))
		}
		x = change(v, v.Len()/n).Interface()
		if shaped {
			return Array{append([]int{now}, a.Dims[1:]...), x}
		}
		return x
	}
	if in, several := e.X.(Inputs); several {
		all := Inputs{}
		for name, x := range in {
			all[name] = part("input "+name, x)
		}
		e.X = all
	} else {
		e.X = part("X", e.X)
	}
	e.Y = part("Y", e.Y)
	e.V, _ = part("V", e.V).([]float32)
	return e
}
