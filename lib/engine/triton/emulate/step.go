package emulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// elementwise are the ops on each element by itself.
var elementwise = map[string]func(a []float64) float64{
	"arith.addf":         func(a []float64) float64 { return a[0] + a[1] },
	"arith.addi":         func(a []float64) float64 { return a[0] + a[1] },
	"arith.subf":         func(a []float64) float64 { return a[0] - a[1] },
	"arith.subi":         func(a []float64) float64 { return a[0] - a[1] },
	"arith.mulf":         func(a []float64) float64 { return a[0] * a[1] },
	"arith.muli":         func(a []float64) float64 { return a[0] * a[1] },
	"arith.divf":         func(a []float64) float64 { return a[0] / a[1] },
	"arith.divsi":        func(a []float64) float64 { return math.Trunc(a[0] / a[1]) },
	"arith.remsi":        func(a []float64) float64 { return math.Mod(a[0], a[1]) },
	"arith.maximumf":     func(a []float64) float64 { return math.Max(a[0], a[1]) },
	"arith.minimumf":     func(a []float64) float64 { return math.Min(a[0], a[1]) },
	"arith.maxsi":        func(a []float64) float64 { return math.Max(a[0], a[1]) },
	"arith.minsi":        func(a []float64) float64 { return math.Min(a[0], a[1]) },
	"arith.andi":         func(a []float64) float64 { return float64(int64(a[0]) & int64(a[1])) },
	"arith.ori":          func(a []float64) float64 { return float64(int64(a[0]) | int64(a[1])) },
	"arith.xori":         func(a []float64) float64 { return float64(int64(a[0]) ^ int64(a[1])) },
	"arith.negf":         func(a []float64) float64 { return -a[0] },
	"arith.cmpf olt":     func(a []float64) float64 { return truth(a[0] < a[1]) },
	"arith.cmpf ole":     func(a []float64) float64 { return truth(a[0] <= a[1]) },
	"arith.cmpf ogt":     func(a []float64) float64 { return truth(a[0] > a[1]) },
	"arith.cmpf oge":     func(a []float64) float64 { return truth(a[0] >= a[1]) },
	"arith.cmpf oeq":     func(a []float64) float64 { return truth(a[0] == a[1]) },
	"arith.cmpf une":     func(a []float64) float64 { return truth(a[0] != a[1]) },
	"arith.cmpi slt":     func(a []float64) float64 { return truth(a[0] < a[1]) },
	"arith.cmpi sle":     func(a []float64) float64 { return truth(a[0] <= a[1]) },
	"arith.cmpi sgt":     func(a []float64) float64 { return truth(a[0] > a[1]) },
	"arith.cmpi sge":     func(a []float64) float64 { return truth(a[0] >= a[1]) },
	"arith.cmpi eq":      func(a []float64) float64 { return truth(a[0] == a[1]) },
	"arith.cmpi ne":      func(a []float64) float64 { return truth(a[0] != a[1]) },
	"arith.extf":         func(a []float64) float64 { return a[0] },
	"arith.truncf":       func(a []float64) float64 { return a[0] },
	"arith.fptosi":       func(a []float64) float64 { return math.Trunc(a[0]) },
	"arith.sitofp":       func(a []float64) float64 { return a[0] },
	"arith.uitofp":       func(a []float64) float64 { return a[0] },
	"arith.extui":        func(a []float64) float64 { return a[0] },
	"arith.extsi":        func(a []float64) float64 { return a[0] },
	"arith.trunci":       func(a []float64) float64 { return a[0] },
	"math.fma":           func(a []float64) float64 { return a[0]*a[1] + a[2] },
	"math.exp":           func(a []float64) float64 { return math.Exp(a[0]) },
	"math.log":           func(a []float64) float64 { return math.Log(a[0]) },
	"math.sqrt":          func(a []float64) float64 { return math.Sqrt(a[0]) },
	"math.absf":          func(a []float64) float64 { return math.Abs(a[0]) },
	"ex2.approx.ftz.f32": func(a []float64) float64 { return flushed(math.Exp2(a[0])) },
	"rcp.approx.ftz.f32": func(a []float64) float64 { return flushed(1 / flushed(a[0])) },
	"__nv_tanhf":         func(a []float64) float64 { return math.Tanh(a[0]) },
	"__nv_erff":          func(a []float64) float64 { return math.Erf(a[0]) },
	"__nv_expm1f":        func(a []float64) float64 { return math.Expm1(a[0]) },
	"__nv_log1pf":        func(a []float64) float64 { return math.Log1p(a[0]) },
	"arith.select": func(a []float64) float64 {
		if a[0] != 0 {
			return a[1]
		}
		return a[2]
	},
}

// flushed is x without the float32 numbers that are nearly 0.
func flushed(x float64) float64 {
	if math.Abs(x) < 0x1p-126 {
		return math.Copysign(0, x)
	}
	return x
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// step runs one op.
func (m *machine) step(o *op) error {
	a := m.all(o.args)
	for i, x := range a {
		if x == nil {
			return fmt.Errorf("%s has no value", o.args[i])
		}
	}
	switch o.name {
	case "scf.for":
		return m.loop(o, a)
	case "scf.if":
		body := o.other
		if a[0].data[0] != 0 {
			body = o.body
		}
		_, err := m.do(body)
		return err
	case "tt.store":
		return m.store(a)
	case "tt.reduce":
		var out []*tile
		for i, t := range o.types {
			out = append(out, newTile(t))
			m.values[o.results[i]] = out[i]
		}
		return m.reduce(o, a, out)
	}
	t := o.types[len(o.types)-1]
	out := newTile(t)
	if f := elementwise[o.name]; f != nil {
		if strings.HasPrefix(o.name, "arith.cmp") {
			out.dtype = dtypes.Bool
		}
		x := make([]float64, len(a))
		for i := range out.data {
			for k := range a {
				x[k] = a[k].data[i]
			}
			out.data[i] = round(out.dtype, f(x))
		}
		m.values[o.results[0]] = out
		return nil
	}
	switch o.name {
	case "arith.constant":
		v, err := number(o.text)
		if err != nil {
			return err
		}
		for i := range out.data {
			out.data[i] = round(t.DType, v)
		}
	case "tt.get_program_id":
		out.data[0] = float64(m.place[o.number])
	case "tt.make_range":
		for i := range out.data {
			out.data[i] = float64(i)
		}
	case "tt.splat":
		for i := range out.data {
			out.data[i] = a[0].data[0]
		}
		out.array = a[0].array
	case "tt.expand_dims", "tt.reshape":
		copy(out.data, a[0].data)
		out.array = a[0].array
	case "tt.broadcast":
		for i := range out.data {
			out.data[i] = a[0].data[within(i, out.dims, a[0].dims)]
		}
		out.array = a[0].array
	case "tt.gather":
		return m.gather(o, a, out)
	case "tt.split":
		half := newTile(t)
		for i := range out.data {
			out.data[i], half.data[i] = a[0].data[2*i], a[0].data[2*i+1]
		}
		m.values[o.results[1]] = half
	case "tt.trans":
		transpose(a[0], out, o.order)
	case "tt.addptr":
		// the type is that of the index; addresses keep their array's
		*out = tile{dims: a[0].dims, dtype: a[0].dtype, array: a[0].array, data: make([]float64, len(a[0].data))}
		for i := range out.data {
			out.data[i] = a[0].data[i] + a[1].data[i]
		}
	case "tt.load":
		if err := m.load(a, out); err != nil {
			return err
		}
	case "tt.bitcast":
		for i, x := range a[0].data {
			if t.DType == dtypes.Int32 {
				out.data[i] = float64(int32(math.Float32bits(float32(x))))
			} else {
				out.data[i] = float64(math.Float32frombits(uint32(int32(x))))
			}
		}
	case "tt.dot":
		if strings.Contains(o.line, "tf32_arguments_rounded") {
			dot(tf32(a[0]), tf32(a[1]), a[2], out)
		} else {
			dot(a[0], a[1], a[2], out)
		}
	default:
		return fmt.Errorf("%s is not an op that is known: %v", o.name, known())
	}
	m.values[o.results[0]] = out
	return nil
}

// gather takes elements along an axis; an index beyond the axis is an error.
func (m *machine) gather(o *op, a []*tile, out *tile) error {
	from, length, inner := a[0], a[0].dims[o.number], 1
	for _, d := range from.dims[o.number+1:] {
		inner *= d
	}
	for i := range out.data {
		j := int(a[1].data[i])
		if j < 0 || j >= length {
			return fmt.Errorf("gather of place %d of %d", j, length)
		}
		outer := i / inner / out.dims[o.number]
		out.data[i] = from.data[(outer*length+j)*inner+i%inner]
	}
	m.values[o.results[0]] = out
	return nil
}

// within is where element i of a tile of dims lies in one of from, whose sides
// may be 1.
func within(i int, dims, from []int) int {
	at, step := 0, 1
	for k := len(dims) - 1; k >= 0; k-- {
		if from[k] != 1 {
			at += i % dims[k] * step
			step *= from[k]
		}
		i /= dims[k]
	}
	return at
}

func transpose(x, out *tile, order []int) {
	for i := range x.data {
		place := make([]int, len(x.dims))
		for k, rest := len(x.dims)-1, i; k >= 0; k-- {
			place[k], rest = rest%x.dims[k], rest/x.dims[k]
		}
		at := 0
		for k, from := range order {
			at = at*out.dims[k] + place[from]
		}
		out.data[at] = x.data[i]
	}
}

// tf32 drops the bits that the tensor cores do not take.
func tf32(x *tile) *tile {
	y := *x
	y.data = make([]float64, len(x.data))
	for i, v := range x.data {
		y.data[i] = float64(math.Float32frombits(math.Float32bits(float32(v)) &^ (1<<13 - 1)))
	}
	return &y
}

func dot(x, y, sum, out *tile) {
	n := len(x.dims)
	rows, depth, columns := x.dims[n-2], x.dims[n-1], y.dims[n-1]
	for s := range len(out.data) / (rows * columns) {
		for i := range rows {
			for j := range columns {
				at := (s*rows+i)*columns + j
				v := sum.data[at]
				for k := range depth {
					v += x.data[(s*rows+i)*depth+k] * y.data[(s*depth+k)*columns+j]
				}
				out.data[at] = round(dtypes.Float32, v)
			}
		}
	}
}

// number reads a constant: dense<1.0e+00>, 0x7F800000, true.
func number(text string) (float64, error) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "dense<"), ">")
	switch {
	case text == "true" || text == "false":
		return truth(text == "true"), nil
	case strings.HasPrefix(text, "0x"):
		for k, spellings := range [][]string{{"0x7FC00000", "0x7FC0", "0x7E00"}, {"0x7F800000", "0x7F80", "0x7C00"}, {"0xFF800000", "0xFF80", "0xFC00"}} {
			if slices.Contains(spellings, text) {
				return []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[k], nil
			}
		}
	}
	return strconv.ParseFloat(text, 64)
}
