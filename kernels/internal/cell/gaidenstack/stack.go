// Package gaidenstack bounds the stacks of a cell's goroutines, and tells when the
// cell ends: what an error says to do that it dies of, how many goroutines end with
// it, and what has changed of its directory and environment. It is part of the
// programs: package cell writes it into the notebook's module, and every program
// imports it.
//
// Go's own bound is 512 MiB. A function that calls itself without an end fills it
// in half a second, and then the runtime walks the whole stack for its last words:
// 9 s on a slow machine, in which a notebook seems to hang, and a gigabyte of
// memory. With an eighth of that such a cell ends in 2 s, and still has a depth of
// half a million calls of a hundred bytes each. Who needs more says so in the cell:
//
//	debug.SetMaxStack(1 << 30)
package gaidenstack

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// guarded is set when main has started, and Hint will see what it dies of.
var guarded bool

// Main is called first by main, which defers what it returns before all else.
func Main() (end func()) {
	guarded = true
	return Hint
}

// Failure is what a failed call panics with: the error, or where Hint will not see it (in
// another goroutine, before main, in a test) and it has a hint, the error with it.
func Failure(err error) error {
	next := HintOf(err)
	if next == "" || guarded && goroutine() == "1" {
		return err
	}
	return &failure{err, next}
}

type failure struct {
	error
	next string
}

func (f *failure) Error() string { return f.error.Error() + "\nhint: " + f.next }
func (f *failure) Unwrap() error { return f.error }

// goroutine returns the number of the goroutine that calls it.
func goroutine() string {
	var text [64]byte
	return strings.Fields(string(text[:runtime.Stack(text[:], false)]))[1]
}

// Hint is deferred by main, before all else. Where the error that main panics with has a
// Hint, or knows where in the cells it was made, that is the last of the runtime's words:
// the kernel takes it out of them.
func Hint() {
	died := recover()
	Leave()
	if died == nil {
		left()
		return
	}
	if err, is := died.(error); is {
		if words := HintOf(err) + madeAt(err); words != "" {
			panic(hint(words))
		}
	}
	panic(died)
}

type hint string

func (h hint) Error() string { return "hint: " + string(h) }

// Trace returns the stack that an error remembers, nil if it remembers none. Package
// gaidentrace sets it.
var Trace func(err error) []uintptr

// madeAt lists the lines of cells at which an error was made, innermost first: a line of
// text each, the function, a tab, the file and the number of the line.
func madeAt(err error) (text string) {
	if Trace == nil {
		return ""
	}
	stack := Trace(err)
	for frames, more := runtime.CallersFrames(stack), len(stack) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.Contains(f.File, "cell[") {
			text += "\nat: " + f.Function + "\t" + f.File + ":" + strconv.Itoa(f.Line)
		}
	}
	return text
}

// HintOf is what package notebook's is to the kernel, whose packages a cell cannot
// import: the next step that an error knows, or one that it wraps, "" if none
// does.
func HintOf(err error) string {
	if e, is := err.(interface{ Hint() string }); is && e.Hint() != "" {
		return e.Hint()
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return HintOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if next := HintOf(one); next != "" {
				return next
			}
		}
	}
	return ""
}

const limit = 64 << 20

func init() { debug.SetMaxStack(limit) }
