package hlo

import (
	"strconv"
	"strings"
)

// writer writes a module. Names are given as it goes, so that they depend on
// what is written and on nothing else.
type writer struct {
	buf    []byte
	next   int // number of the next value
	depth  int
	scopes []map[string]int // the constants written in each open region: their numbers by their text
	labels map[string]int
	names  []string // the labels, in order
	calls  map[*Function]int
	queue  []*Function // functions called, in order
}

// write writes the module of main.
func write(main *Function, replicas int) *Program {
	w := &writer{
		buf:    make([]byte, 0, 64<<10),
		labels: map[string]int{},
		calls:  map[*Function]int{},
	}
	mark(main, map[*Function]bool{})

	p := &Program{head: "module @m {\n  func.func public @main("}
	if replicas > 1 {
		p.head = "module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = " + strconv.Itoa(replicas) +
			" : i32} {\n  func.func public @main("
	}
	for i, v := range main.params {
		v.number = i
		p.types = append(p.types, string(appendType(nil, v.shape)))
	}
	w.function(main)
	for i := 0; i < len(w.queue); i++ { // it grows while functions are written
		f := w.queue[i]
		w.str("  func.func private @f")
		w.int(i)
		w.str("(")
		for j, v := range f.params {
			if j > 0 {
				w.str(", ")
			}
			v.number = j
			w.value(v)
			w.str(": ")
			w.buf = appendType(w.buf, v.shape)
		}
		w.function(f)
	}
	w.str("}\n")
	for i, label := range w.names {
		w.str("#l")
		w.int(i)
		w.str(" = loc(")
		w.str(quote(label))
		w.str(")\n")
	}
	p.tail = string(w.buf)
	return p
}

// mark finds the statements of f that its outputs need, and those inside them.
// Statements only use earlier ones, so one pass from the end is enough.
func mark(f *Function, called map[*Function]bool) {
	for _, out := range f.outputs {
		out.markLive()
	}
	for i := len(f.statements) - 1; i >= 0; i-- {
		s := f.statements[i]
		if s.live = s.live || s.sticky; !s.live {
			continue
		}
		for _, in := range s.in {
			in.markLive()
		}
		for _, r := range s.regions {
			mark(r, called)
		}
		if s.callee != nil && !called[s.callee] {
			called[s.callee] = true
			mark(s.callee, called)
		}
	}
}

// function writes the results and body of a top-level function; what comes
// before is written already.
func (w *writer) function(f *Function) {
	w.str(") -> (")
	w.types(f.outputs)
	w.str(") {\n")
	w.next = 0
	w.depth = 2
	w.body(f, "return")
	w.str("  }\n")
}

// body writes the statements of f and its last line.
func (w *writer) body(f *Function, last string) {
	w.scopes = append(w.scopes, nil)
	for _, s := range f.statements {
		if s.live {
			w.statement(s)
		}
	}
	w.constants(f.outputs)
	w.indent()
	w.str(last)
	w.str(" ")
	w.values(f.outputs)
	w.str(" : ")
	w.types(f.outputs)
	w.str("\n")
	w.scopes = w.scopes[:len(w.scopes)-1]
}

// region writes a closure.
func (w *writer) region(f *Function) {
	w.str("{\n")
	if len(f.params) > 0 {
		w.indent()
		w.str("^bb0(")
		for i, v := range f.params {
			if i > 0 {
				w.str(", ")
			}
			v.number = w.next
			w.next++
			w.value(v)
			w.str(": ")
			w.buf = appendType(w.buf, v.shape)
		}
		w.str("):\n")
	}
	w.depth++
	w.body(f, "stablehlo.return")
	w.depth--
	w.indent()
	w.str("}")
}

func (w *writer) statement(s *statement) {
	w.constants(s.in)
	w.indent()
	if len(s.out) > 0 {
		for _, v := range s.out {
			v.number = w.next
		}
		w.next++
		w.str("%")
		w.int(s.out[0].number)
		if len(s.out) > 1 {
			w.str(":")
			w.int(len(s.out))
		}
		w.str(" = ")
	}
	switch s.form {
	case formSame, formPlain:
		w.str(s.op)
		if len(s.in) > 0 {
			w.str(" ")
			w.values(s.in)
		}
		w.str(s.attrs)
	case formCall:
		w.str(s.op)
		if s.callee != nil {
			w.str("func.call @f")
			w.int(w.call(s.callee))
		}
		w.str("(")
		w.values(s.in)
		w.str(")")
		w.str(s.attrs)
	case formReduce:
		w.str(s.op)
		w.str("(")
		w.value(s.in[0])
		w.str(" init: ")
		w.value(s.in[1])
		w.str(")")
		w.str(s.attrs)
	case formGeneric:
		w.str(`"`)
		w.str(s.op)
		w.str(`"(`)
		w.values(s.in)
		w.str(")")
		if s.attrs != "" {
			w.str(" <{")
			w.str(s.attrs)
			w.str("}>")
		}
		w.regions(s)
	}
	w.str(" : ")
	if s.form == formSame {
		w.buf = appendType(w.buf, s.out[0].shape)
	} else {
		w.str("(")
		w.types(s.in)
		w.str(") -> ")
		if len(s.out) == 1 {
			w.types(s.out)
		} else {
			w.str("(")
			w.types(s.out)
			w.str(")")
		}
	}
	w.location(s.label)
	w.str("\n")
}

func (w *writer) regions(s *statement) {
	if s.body == "" && len(s.regions) == 0 {
		return
	}
	w.str(" (")
	w.str(strings.ReplaceAll(s.body, "\n", "\n"+strings.Repeat("  ", w.depth)))
	for i, r := range s.regions {
		if i > 0 {
			w.str(", ")
		}
		w.region(r)
	}
	w.str(")")
}

// location writes the label of a statement; the labels themselves stand at
// the end of the module.
func (w *writer) location(label string) {
	if label == "" {
		return
	}
	n, ok := w.labels[label]
	if !ok {
		n = len(w.names)
		w.labels[label] = n
		w.names = append(w.names, label)
	}
	w.str(" loc(#l")
	w.int(n)
	w.str(")")
}

// call returns the number of a function.
func (w *writer) call(f *Function) int {
	n, ok := w.calls[f]
	if !ok {
		n = len(w.queue)
		w.calls[f] = n
		w.queue = append(w.queue, f)
	}
	return n
}

// constants writes the constants among vs that the region has not written.
// A scalar is written in each region again, where XLA can use its value; a
// larger one is taken from the regions around if they have it.
func (w *writer) constants(vs []*value) {
	for _, v := range vs {
		if !v.isConstant() {
			continue
		}
		key := v.literal + string(appendType(nil, v.shape))
		innermost := len(w.scopes) - 1
		outermost := 0
		if v.shape.IsScalar() {
			outermost = innermost
		}
		found := false
		for i := innermost; i >= outermost && !found; i-- {
			v.number, found = w.scopes[i][key]
		}
		if found {
			continue
		}
		v.number = w.next
		w.next++
		if w.scopes[innermost] == nil {
			w.scopes[innermost] = map[string]int{}
		}
		w.scopes[innermost][key] = v.number
		w.indent()
		w.value(v)
		w.str(" = stablehlo.constant ")
		w.str(v.literal)
		w.str(" : ")
		w.buf = appendType(w.buf, v.shape)
		w.str("\n")
	}
}

func (w *writer) value(v *value) {
	if v.isParameter() && v.home.name != "" {
		w.str("%arg")
	} else {
		w.str("%")
	}
	w.int(v.number)
	if v.stmt != nil && len(v.stmt.out) > 1 {
		w.str("#")
		w.int(v.index)
	}
}

func (w *writer) values(vs []*value) {
	for i, v := range vs {
		if i > 0 {
			w.str(", ")
		}
		w.value(v)
	}
}

func (w *writer) types(vs []*value) {
	for i, v := range vs {
		if i > 0 {
			w.str(", ")
		}
		w.buf = appendType(w.buf, v.shape)
	}
}

func (w *writer) indent() {
	for range w.depth {
		w.buf = append(w.buf, "  "...)
	}
}

func (w *writer) str(s string) { w.buf = append(w.buf, s...) }
func (w *writer) int(n int)    { w.buf = strconv.AppendInt(w.buf, int64(n), 10) }
