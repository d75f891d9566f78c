package kernels

import (
	"slices"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// place is what the way back needs of a place of the sequence.
type place struct {
	in, forget, cell, out, c, end triton.Value   // planes that forwards has kept
	x, y                          []triton.Value // numbers of the example there
}

// placeOf is the place whose values are the first of l, and the rest.
func (s *sequencer) placeOf(l []triton.Value) (p place, rest []triton.Value) {
	p = place{l[0], l[1], l[2], l[3], l[4], l[5], l[planes:][:s.In], l[planes+s.In:][:s.Out]}
	return p, l[planes+s.In+s.Out:]
}

func (s *sequencer) load(t triton.Value) []triton.Value {
	l := s.planes(t)
	for k := range l {
		l[k] = l[k].Load()
	}
	return slices.Concat(l[:], s.numbers(s.x, t, s.In), s.numbers(s.y, t, s.Out))
}

// totals are what the way back adds up: the gradients of what forwards uses, one
// part for each example, and the loss.
type totals struct {
	recurrent [][4]triton.Value // from unit j
	feed      [][4]triton.Value
	bias      [4]triton.Value
	last      []triton.Value
	lastBias  []triton.Value
	loss      triton.Value
}

func (m *totals) values() (l []triton.Value) {
	for _, w := range slices.Concat(m.recurrent, m.feed) {
		l = append(l, w[:]...)
	}
	return slices.Concat(l, m.bias[:], m.last, m.lastBias, []triton.Value{m.loss})
}

func (s *sequencer) totalsOf(l []triton.Value) *totals {
	m := &totals{}
	four := func() (w [4]triton.Value) {
		copy(w[:], l)
		l = l[4:]
		return w
	}
	for range s.Units {
		m.recurrent = append(m.recurrent, four())
	}
	for range s.In {
		m.feed = append(m.feed, four())
	}
	m.bias = four()
	m.last, m.lastBias, m.loss = slices.Clone(l[:s.Out]), slices.Clone(l[s.Out:2*s.Out]), l[2*s.Out]
	return m
}

// back goes back along the sequence. Its state are the gradients of the output
// and the cell that come from the places behind, the difference of the net's
// answer here, the sums, this place, and the next ones.
func (s *sequencer) back() {
	b := s.b
	var transposed [][4]triton.Value // from gates of unit j to the lane's output
	row := b.Input(10).At(s.unit.Mul(4 * s.Units))
	for j := range s.Units {
		transposed = append(transposed, s.gates(row, j))
	}
	last := make([]triton.Value, s.Out)
	for o := range last {
		last[o] = load(b.Input(11).At(s.unit.Mul(s.Out)).At(o), s.some)
	}
	weights, biases := make([][]triton.Value, s.Units), make([]triton.Value, s.Out)
	for o := range biases {
		biases[o] = s.scalar(12, o)
		for j := range weights {
			weights[j] = append(weights[j], s.scalar(11, j*s.Out+o))
		}
	}
	// answer begins as the last layer's biases, less what was wanted.
	answer := func(y []triton.Value) (e []triton.Value) {
		for o := range y {
			e = append(e, biases[o].Sub(y[o]))
		}
		return e
	}
	number := func(n int) triton.Value { return b.Full(dtypes.Int32, float64(max(0, n))) }
	queue := s.load(number(s.Length - 1))
	for k := 1; k <= s.ahead(); k++ {
		queue = append(queue, s.load(number(s.Length-1-k))...)
	}
	end, _ := s.placeOf(queue)
	e := answer(end.y)
	h := end.out.Mul(end.end)
	for j := range s.Units {
		from := s.of(h, j)
		for o := range e {
			e[o] = from.MulAdd(weights[j][o], e[o])
		}
	}
	zeros := slices.Repeat([]triton.Value{s.zero}, 4*(s.Units+s.In+1)+2*s.Out+1)
	state := slices.Concat([]triton.Value{s.zero, s.zero}, e, zeros, queue)
	state = b.For(0, s.Length, 1, state, func(i triton.Value, state []triton.Value) []triton.Value {
		t := number(s.Length - 1).Sub(i)
		following := s.load(t.Sub(s.ahead() + 1).Max(0))
		dh, dc, e, rest := state[0], state[1], state[2:2+s.Out], state[2+s.Out:]
		m := s.totalsOf(rest)
		queue := rest[len(zeros):]
		p, queue := s.placeOf(queue)
		before, _ := s.placeOf(queue)
		there := t.Greater(0).Spread(s.rows(), s.lanes())
		c, h := there.Select(before.c, 0), there.Select(before.out.Mul(before.end), 0)

		for o := range e {
			d := s.mine.Select(e[o].Mul(2/float64(s.Batch*s.Length*s.Out)), 0)
			dh = d.MulAdd(last[o], dh)
			m.last[o] = d.MulAdd(p.out.Mul(p.end), m.last[o])
			m.lastBias[o] = m.lastBias[o].Add(d)
			m.loss = e[o].MulAdd(e[o], m.loss)
		}
		slope := func(v triton.Value) triton.Value { return v.Sub(v.Mul(v)) }
		dc = dc.Add(dh.Mul(p.out.Sub(p.out.Mul(p.end.Mul(p.end)))))
		d := [4]triton.Value{
			dc.Mul(p.cell.Mul(slope(p.in))),
			dc.Mul(c.Mul(slope(p.forget))),
			dc.Mul(p.in.Sub(p.in.Mul(p.cell.Mul(p.cell)))),
			dh.Mul(p.end.Mul(slope(p.out))),
		}
		next := [4]triton.Value{s.zero, s.zero, s.zero, s.zero} // four short chains for one long
		e = answer(before.y)
		for j := range s.Units {
			from := s.of(h, j)
			for g := range d {
				next[g] = s.of(d[g], j).MulAdd(transposed[j][g], next[g])
				m.recurrent[j][g] = from.MulAdd(d[g], m.recurrent[j][g])
			}
			for o := range e {
				e[o] = from.MulAdd(weights[j][o], e[o])
			}
		}
		for g := range d {
			for i := range s.In {
				m.feed[i][g] = p.x[i].MulAdd(d[g], m.feed[i][g])
			}
			m.bias[g] = m.bias[g].Add(d[g])
		}
		dh = next[0].Add(next[1]).Add(next[2].Add(next[3]))
		return slices.Concat([]triton.Value{dh, dc.Mul(p.forget)}, e, m.values(), queue, following)
	})
	s.gradients(s.totalsOf(state[2+s.Out:]))
}

// gradients stores the sums, as gradients of the net's own weights.
func (s *sequencer) gradients(m *totals) {
	b := s.b
	one := s.unit.Equal(0) // the lane that speaks for an example
	result := s.mine.And(one)
	b.Output(0).At(s.row).StoreIf(result, m.loss.Mul(1/float64(s.Length*s.Out)))
	b.Output(1).At(s.row).StoreIf(result, 0)
	b.If(b.ProgramID(0).Equal(0), func() {
		b.Output(2).Store(b.Input(2).Load().Add(b.Input(3).Load()).Add(1).To(dtypes.Float32))
	}, nil)
	gates := func(row triton.Value, d [4]triton.Value) {
		for g := range d {
			store(row.At(g*s.Units), d[g], s.some)
		}
	}
	lane := func(output, rows int) triton.Value { // where a part of [rows 4·units] begins
		return b.Output(output).At(s.row.Mul(rows * 4 * s.Units).Add(s.unit))
	}
	recurrent, weights := lane(5, s.Units), lane(4, s.Wide+1)
	for j, d := range m.recurrent {
		gates(recurrent.At(4*j*s.Units), d)
	}
	gates(weights.At(4*s.Wide*s.Units), m.bias)
	first := b.Output(3).At(b.ProgramID(0).Mul(s.rows()).Add(b.Range(s.rows())).Mul((s.In + 1) * s.Wide))
	from := b.Input(8).At(s.unit)
	b.For(0, s.Wide, 1, nil, func(a triton.Value, _ []triton.Value) []triton.Value { // an output of the first layer
		row := a.Mul(4 * s.Units)
		w := s.gates(from, row)
		share := func(i int, d [4]triton.Value) {
			sum := d[0].Mul(w[0])
			for g := 1; g < 4; g++ {
				sum = d[g].MulAdd(w[g], sum)
			}
			first.At(a.Add(i * s.Wide)).Store(sum.Sum(1))
		}
		d, bias := [4]triton.Value{}, s.scalar(7, a)
		for g := range d {
			d[g] = m.bias[g].Mul(bias)
		}
		for i, feed := range m.feed {
			weight := s.scalar(6, a.Add(i*s.Wide))
			for g := range d {
				d[g] = feed[g].MulAdd(weight, d[g])
			}
			share(i, feed)
		}
		share(s.In, m.bias)
		gates(weights.At(row), d)
		return nil
	})
	last := b.Output(6).At(s.row.Mul((s.Units + 1) * s.Out))
	for o := range s.Out {
		store(last.At(s.unit.Mul(s.Out)).At(o), m.last[o], s.some)
		last.At(s.Units*s.Out+o).StoreIf(one, m.lastBias[o])
	}
}
