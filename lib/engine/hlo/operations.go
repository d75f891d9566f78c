package hlo

import (
	"strings"

	"github.com/gomlx/compute"
)

// Operation is one op of a program's main, as a program of its own, so that it
// can be run and timed apart: its operands are the parameters, a loop's or a
// reduction's body comes along, and so do constants.
//
// Values are known by numbers: the parameters of the whole program are 0, 1 and
// so on; every op's results follow in the order of the ops. So who runs the
// operations one after the other, and keeps what they give, runs the program:
//
//	operations, _ := program.Operations()
//	values := parameters
//	for _, op := range operations {
//		values = append(values, run(op.Program, pick(values, op.Inputs))...)
//	}
type Operation struct {
	Name    string // such as dot_general
	Label   string
	Program *Program
	Inputs  []int // numbers of the values that it takes, each once
	First   int   // number of its first result
}

// Operations takes the program apart. The sum of what the parts take is more
// than the whole takes: XLA joins ops, and each part alone reads and writes
// all that it works on. outputs are the numbers of the program's results, -1 for
// a constant. There are no operations of a program that runs on several
// replicas: they cannot run alone.
func (p *Program) Operations() (all []Operation, outputs []int) {
	if p.main == nil || p.Replicas > 1 {
		return nil, nil
	}
	number := map[*value]int{}
	next := 0
	name := func(vs []*value) (first int) {
		first = next
		for _, v := range vs {
			number[v] = next
			next++
		}
		return first
	}
	name(p.main.params)
	for _, s := range p.main.statements {
		if !s.live {
			continue
		}
		op := Operation{Name: strings.TrimPrefix(firstWord(s.op), "stablehlo."), Label: s.label, First: name(s.out)}
		if s.callee != nil {
			op.Name = "call"
		}
		var taken []*value
		op.Program, taken = alone(p.main, s)
		op.Program.Name = p.Name + "/" + op.Name
		for _, v := range taken {
			op.Inputs = append(op.Inputs, number[v])
		}
		all = append(all, op)
	}
	for _, v := range p.main.outputs {
		n, ok := number[v]
		if !ok {
			n = -1
		}
		outputs = append(outputs, n)
	}
	return all, outputs
}

// Size is the number of ops of the program, without those inside of loops and
// branches.
func (p *Program) Size() int {
	n := 0
	if p.main != nil {
		for _, s := range p.main.statements {
			if s.live {
				n++
			}
		}
	}
	return n
}

// firstWord leaves out what an op's text holds besides its name: the direction
// of a comparison, say.
func firstWord(s string) string {
	if i := strings.IndexAny(s, " \"<{@("); i > 0 {
		return s[:i]
	}
	return s
}

// alone makes a program of one statement of main, and says which values of main
// its parameters stand for.
func alone(main *Function, s *statement) (*Program, []*value) {
	f := &Function{builder: main.builder, name: compute.MainName, returned: true}
	c := copier{from: main, to: f, copies: map[*value]*value{}}
	own := c.statement(s, f)
	own.live, own.sticky = true, true
	f.statements = []*statement{own}
	f.outputs = own.out
	p := write(f, 1)
	p.Inputs, p.Outputs, p.Replicas = shapesOf(f.params), shapesOf(f.outputs), 1
	p.costs = count(f, map[*Function][]counted{})
	p.main = f
	return p, c.taken
}

// copier copies statements out of a function. Values of the function that they
// use become parameters of another.
type copier struct {
	from, to *Function
	copies   map[*value]*value
	taken    []*value
}

func (c *copier) value(v *value) *value {
	if d := c.copies[v]; d != nil {
		return d
	}
	d := *v
	if !v.isConstant() && v.home == c.from {
		d.home, d.stmt, d.index = c.to, nil, len(c.to.params)
		c.to.params = append(c.to.params, &d)
		c.taken = append(c.taken, v)
	}
	c.copies[v] = &d
	return &d
}

func (c *copier) values(vs []*value) []*value {
	all := make([]*value, len(vs))
	for i, v := range vs {
		all[i] = c.value(v)
	}
	return all
}

// statement copies s into f.
func (c *copier) statement(s *statement, f *Function) *statement {
	d := *s
	d.in = c.values(s.in)
	d.regions = make([]*Function, len(s.regions))
	for i, r := range s.regions {
		d.regions[i] = c.region(r)
	}
	if s.callee != nil {
		d.callee = c.region(s.callee)
	}
	d.out = make([]*value, len(s.out))
	for i, v := range s.out {
		own := *v
		own.home, own.stmt = f, &d
		d.out[i] = &own
		c.copies[v] = &own
	}
	return &d
}

// region copies a closure, or a function that is called.
func (c *copier) region(r *Function) *Function {
	f := &Function{builder: r.builder, name: r.name, returned: true}
	for _, v := range r.params {
		own := *v
		own.home = f
		c.copies[v] = &own
		f.params = append(f.params, &own)
	}
	for _, s := range r.statements {
		if s.live {
			f.statements = append(f.statements, c.statement(s, f))
		}
	}
	f.outputs = c.values(r.outputs)
	return f
}
