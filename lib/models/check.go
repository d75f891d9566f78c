package models

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
)

// maxSize bounds the numbers of an example, so that no product of sides overflows.
const maxSize = 1 << 40

// Check says what is wrong with the net before a layer of it is built: settings that mean
// nothing, or that nothing would use. What a layer cannot take it says when it is built.
func (n Net) Check() error {
	if n.wrong != nil {
		return n.wrong
	}
	if err := cmp.Or(n.checkInputs(), n.checkAdapt()); err != nil {
		return err
	}
	n = n.Listed()
	if len(n.Layers) == 0 {
		return fmt.Errorf("models: net %q has no layers: want at least one, or a Function", n.Name)
	}
	for i, l := range n.Layers {
		if err := exists(l); err != nil {
			return fmt.Errorf("models: %s: layer %d is %w", n.Name, i+1, err)
		}
	}
	first := map[string]int{}
	for i, name := range n.Names() {
		if k, is := first[name]; is {
			return fmt.Errorf("models: %s: layers %d and %d are both called %s: want names that differ, or none", n.Name, k+1, i+1, name)
		}
		first[name] = i
		if _, is := n.Layers[i].(function); !is && strings.ContainsAny(name, "/*") {
			return fmt.Errorf("models: %s: layer %d is called %q: want a name without / or *", n.Name, i+1, name)
		}
		if err := check(n.Layers[i]); err != nil {
			return fmt.Errorf("models: %s: layer %s: %w", n.Name, name, err)
		}
		if c, is := n.Layers[i].(container); is && carries(c) {
			return fmt.Errorf("models: %s: layer %s holds an LSTM with Stateful: want it among the net's own Layers", n.Name, name)
		}
	}
	return nil
}

// carries says whether a layer in c is Stateful.
func carries(c container) bool {
	for _, b := range c.branches() {
		for _, l := range b.layers {
			if m, is := l.(LSTM); is && m.Stateful > 0 {
				return true
			}
			if inner, is := l.(container); is && carries(inner) {
				return true
			}
		}
	}
	return false
}

// checkInputs says what is wrong with the shapes and names of the inputs.
func (n Net) checkInputs() error {
	listed, takes := n.Listed().Layers, false
	if len(listed) > 0 {
		_, takes = listed[0].(function)
	}
	switch {
	case n.Inputs == nil:
	case len(n.Inputs) == 0:
		return fmt.Errorf("models: net %s has Inputs without one: want at least one, or Input", n.Name)
	case n.Input != nil || n.Integers:
		return fmt.Errorf("models: net %s has Inputs, and Input %v, Integers %t: want Inputs only, each with its Dims and Integers", n.Name, n.Input, n.Integers)
	case !takes && !n.parts:
		return fmt.Errorf("models: net %s has Inputs and no Function: want one that makes what the first layer takes of them", n.Name)
	}
	seen, size := map[string]bool{}, 1
	for _, i := range n.AllInputs() {
		of := "an input of"
		if n.Inputs != nil {
			of = fmt.Sprintf("an input %q of", i.Name)
		}
		switch {
		case i.Name == "" || strings.ContainsAny(i.Name, "/* "):
			return fmt.Errorf("models: net %s has an input called %q: want a word without spaces, / or *", n.Name, i.Name)
		case seen[i.Name]:
			return fmt.Errorf("models: net %s has two inputs called %s: want names that differ", n.Name, i.Name)
		case i.Vocab < 0 || n.Inputs != nil && i.Vocab > 0 && !i.Integers:
			return fmt.Errorf("models: net %s has an input %s with a Vocab of %d, Integers %t: want 0 for numbers, and 0 or more for integers", n.Name, i.Name, i.Vocab, i.Integers)
		}
		seen[i.Name] = true
		for _, d := range i.Dims {
			if d < 1 || d > maxSize/size {
				return fmt.Errorf("models: net %s has %s %v: want sides of 1 or more, those of one example", n.Name, of, i.Dims)
			}
			size *= d
		}
	}
	return nil
}

// exists refuses what is no layer, and pointers to those of this package: by them nobody
// would know the kind of the layer.
func exists(l Layer) error {
	v := reflect.ValueOf(l)
	switch {
	case l == nil:
		return errors.New("nil: want a layer")
	case v.Kind() != reflect.Pointer:
		return nil
	case v.IsNil():
		return fmt.Errorf("a %T that is nil: want a layer", l)
	}
	if v.Elem().Type().PkgPath() == reflect.TypeFor[Net]().PkgPath() {
		return fmt.Errorf("a %T: want it without &", l)
	}
	return nil
}

// checked is a layer of this package.
type checked interface{ check() error }

// check says what is wrong with the settings of a layer of this package.
func check(l Layer) error {
	if c, is := l.(checked); is {
		return c.check()
	}
	return nil
}

// must is check for a layer that is being built.
func must(l checked) {
	if err := l.check(); err != nil {
		panic(err)
	}
}

// least refuses a setting below the least that means something.
func least(name string, got, least int) error {
	if got >= least {
		return nil
	}
	return fmt.Errorf("%s is %d: want %d or more", name, got, least)
}

// usual is least for a setting of which 0 is the default.
func usual(name string, got int, otherwise string) error {
	if got >= 0 {
		return nil
	}
	return fmt.Errorf("%s is %d: want 1 or more, or 0 for %s", name, got, otherwise)
}

// share refuses what is not from 0 to below 1, or no number.
func share(name string, got float64) error {
	if got >= 0 && got < 1 {
		return nil
	}
	return fmt.Errorf("%s is %g: want 0 or more, and less than 1", name, got)
}

// unused refuses a setting that another one leaves without use.
func unused(is bool, name, because string) error {
	if !is {
		return nil
	}
	return fmt.Errorf("%s is set, and %s leaves it without use: want one of them", name, because)
}

func (l Conv2D) check() error {
	return cmp.Or(least("Channels", l.Channels, 1), least("Kernel", l.Kernel, 1), usual("Stride", l.Stride, "1"), usual("Dilation", l.Dilation, "1"),
		groupsOf(l.Groups, l.Channels), least("Pad", l.Pad, 0), unused(l.Same && l.Pad > 0, "Pad", "Same"), unused(l.NoBias && l.BiasInit != nil, "BiasInit", "NoBias"))
}

// oneOf refuses a number that is none of a list of constants.
func oneOf(name string, got, last int, all string) error {
	if got >= 0 && got <= last {
		return nil
	}
	return fmt.Errorf("%s is %d: want one of %s", name, got, all)
}

func (l Dense) check() error {
	return cmp.Or(least("Units", l.Units, 1), unused(l.NoBias && l.BiasInit != nil, "BiasInit", "NoBias"))
}

func (l Dropout) check() error { return share("Rate", l.Rate) }

func (l BatchNorm) check() error {
	if !(l.Epsilon >= 0) || math.IsInf(l.Epsilon, 0) {
		return fmt.Errorf("Epsilon is %g: want more than 0, or 0 for 1e-5", l.Epsilon)
	}
	return share("Momentum", l.Momentum)
}

func (l MaxPool2D) check() error {
	err := cmp.Or(least("Window", l.Window, 1), usual("Stride", l.Stride, "Window"), least("Pad", l.Pad, 0),
		oneOf("Gradient", int(l.Gradient), int(IndexedFill), "models.Mask, SelectAndScatter, IndexedFill"))
	if err == nil && l.Pad >= l.Window {
		err = fmt.Errorf("Pad is %d with windows of %d: want less, for some would hold nothing but padding", l.Pad, l.Window)
	}
	return err
}

func (Flatten) check() error    { return nil }
func (Activation) check() error { return nil }

func (l LSTM) check() error {
	return cmp.Or(least("Units", l.Units, 1), usual("Stateful", l.Stateful, "no state to carry on"))
}

// finite refuses a number of an Init that is none.
func finite(name string, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		panic(fmt.Errorf("%s(%g): want a finite number", name, x))
	}
}

// images refuses what is not shaped [n height width channels].
func images(x *Node) {
	if x.Rank() != 4 {
		panic(fmt.Errorf("got an input of rank %d: want images shaped [n height width channels]", x.Rank()))
	}
}
