package toolserver

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"reflect"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// What is read of arrays.
const (
	maxArrays = 500       // of a list
	maxValues = 2000      // of one array
	maxRead   = 256 << 20 // bytes of an array that is copied to be described
)

type listIn struct {
	Prefix string `json:"prefix,omitempty" jsonschema:"list only arrays whose names begin with this, such as cnn/; default: all"`
}

type arrayOut struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Bytes int64  `json:"bytes"`
}

type listOut struct {
	Notebook string     `json:"notebook"`
	Arrays   []arrayOut `json:"arrays"`
	Cut      string     `json:"cut,omitempty"`
}

type readIn struct {
	Name   string `json:"name" jsonschema:"name of the array, as list_arrays has it"`
	Offset int    `json:"offset,omitempty" jsonschema:"first element, counted in row-major order; default: 0"`
	Count  int    `json:"count,omitempty" jsonschema:"number of elements, at most 2000; default: 100"`
}

type readOut struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Shape    []int  `json:"shape"`
	Elements int    `json:"elements"`
	// Of the finite elements; left out where there are none.
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
	Std      *float64 `json:"standard_deviation,omitempty"`
	NaN      int      `json:"nan"`
	Infinite int      `json:"infinite"`
	Offset   int      `json:"offset"`
	Values   []any    `json:"values"`
	Cut      string   `json:"cut,omitempty"`
}

func (s *Server) addArrays(server *mcp.Server) {
	mcp.AddTool(server, &mcp.Tool{Name: "list_arrays", Annotations: reads(), Description: "Lists the arrays of the notebook in the device session: weights (net/layer/weights), optimizer state, data sets (data/set/x). Changes nothing."},
		func(_ context.Context, _ *mcp.CallToolRequest, in listIn) (_ *mcp.CallToolResult, out listOut, err error) {
			out.Arrays = []arrayOut{}
			return nil, out, device(func(c *session.Session) error {
				l, err := c.List(in.Prefix)
				out.Notebook = c.Space()
				for _, a := range l[:min(len(l), maxArrays)] {
					out.Arrays = append(out.Arrays, arrayOut{a.Name, a.Type.String(), a.Bytes})
				}
				if more := len(l) - maxArrays; more > 0 {
					out.Cut = fmt.Sprintf("%s more: give a prefix", units.Plural(more, "array"))
				}
				return err
			})
		})
	mcp.AddTool(server, &mcp.Tool{Name: "read_array", Annotations: reads(), Description: "Reads an array of the device session: type, shape, range, mean, how many elements are NaN or infinite, and a part of its values in row-major order. Works while a cell trains. Changes nothing."},
		func(_ context.Context, _ *mcp.CallToolRequest, in readIn) (_ *mcp.CallToolResult, out readOut, err error) {
			return nil, out, device(func(c *session.Session) error {
				out, err = read(c, in)
				return err
			})
		})
}

// read describes an array.
func read(c *session.Session, in readIn) (out readOut, err error) {
	out.Values = []any{}
	in.Count = cmp.Or(in.Count, 100)
	if in.Offset < 0 || in.Count < 0 || in.Count > maxValues {
		return out, fmt.Errorf("read_array: got offset %d and count %d, want an offset from 0 and a count from 1 to %d", in.Offset, in.Count, maxValues)
	}
	a, err := c.Array(in.Name)
	if err != nil {
		return out, err
	}
	shape, err := a.Shape()
	if err != nil {
		return out, err
	}
	out = readOut{Name: in.Name, Type: strings.ToLower(shape.DType.String()), Shape: append([]int{}, shape.Dimensions...), Elements: shape.Size(), Offset: in.Offset, Values: []any{}}
	if shape.ByteSize() > maxRead {
		out.Cut = fmt.Sprintf("it has %s, and read_array copies at most %s: read a part of it in a cell", units.Bytes(float64(shape.ByteSize())), units.Bytes(maxRead))
		return out, nil
	}
	if in.Offset >= out.Elements && in.Offset > 0 {
		return out, fmt.Errorf("read_array: got offset %d, want one below %d, the number of elements of %s", in.Offset, out.Elements, in.Name)
	}
	if shape.DType.GoType() == nil {
		return out, wire.Errorf(wire.Invalid, "read_array: elements of type %s cannot be read: convert them in a cell", out.Type)
	}
	flat := dtypes.MakeAnySlice(shape.DType, out.Elements)
	if err := a.Values(flat); err != nil {
		return out, err
	}
	v := reflect.ValueOf(flat)
	n, mean, squares := 0, 0.0, 0.0
	low, high := math.Inf(1), math.Inf(-1)
	for i := range v.Len() {
		x, shown := number(v.Index(i).Interface())
		if i >= in.Offset && i < in.Offset+in.Count {
			out.Values = append(out.Values, shown)
		}
		switch {
		case math.IsNaN(x):
			out.NaN++
		case math.IsInf(x, 0):
			out.Infinite++
		default:
			n++ // Welford's way, for large means
			d := x - mean
			mean += d / float64(n)
			squares += d * (x - mean)
			low, high = min(low, x), max(high, x)
		}
	}
	if n > 0 {
		std := math.Sqrt(squares / float64(n))
		out.Min, out.Max, out.Mean, out.Std = &low, &high, &mean, &std
	}
	if rest := out.Elements - in.Offset - len(out.Values); rest > 0 {
		out.Cut = fmt.Sprintf("%s left: offset %d continues", units.Plural(rest, "element"), in.Offset+len(out.Values))
	}
	return out, nil
}

// number is an element as a number, and as JSON can have it: what is not finite
// and complex numbers are text.
func number(element any) (x float64, shown any) {
	v := reflect.ValueOf(element)
	half, isHalf := element.(interface{ Float32() float32 }) // bfloat16 and float16 are integers to package reflect
	switch {
	case isHalf:
		x = float64(half.Float32())
	case v.CanFloat():
		x = v.Float()
	case v.CanComplex():
		return cmplx.Abs(v.Complex()), fmt.Sprint(element)
	case v.CanInt():
		return float64(v.Int()), element
	case v.CanUint():
		return float64(v.Uint()), element
	case element == true:
		return 1, element
	default:
		return 0, element
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return x, fmt.Sprint(x)
	}
	if f, is := element.(float32); is {
		return x, f // with its own digits
	}
	return x, x
}
