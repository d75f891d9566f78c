package hlo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// CallConfig says more about a custom call. The zero value is a call without
// configuration.
type CallConfig struct {
	// Backend is the dictionary that the target reads (backend_config). Values
	// are string, int32 or int (as int64). By its "name" Program.Calls counts the call.
	Backend map[string]any
	// Aliases maps results to the operands whose memory they are written to.
	// The call must be the operand's last use, or XLA copies it first.
	Aliases map[int]int
	// Cost is what the call counts for in Program.Costs; Bytes default to the
	// size of the operands and results.
	Cost Cost
}

// CheckAliases says what is wrong with a map of outputs to the inputs whose memory they
// are: numbers of arrays that there are, of one shape, and each input once.
func CheckAliases(aliases map[int]int, inputs, outputs []shapes.Shape) error {
	taken := map[int]bool{}
	for _, out := range slices.Sorted(maps.Keys(aliases)) {
		in := aliases[out]
		switch {
		case out < 0 || out >= len(outputs) || in < 0 || in >= len(inputs):
			return fmt.Errorf("alias of output %d and input %d, want numbers below %d and %d", out, in, len(outputs), len(inputs))
		case !outputs[out].Equal(inputs[in]):
			return fmt.Errorf("alias of output %d, %s, and input %d, %s, want one shape", out, outputs[out], in, inputs[in])
		case taken[in]:
			return fmt.Errorf("input %d as the memory of two outputs, want one", in)
		}
		taken[in] = true
	}
	return nil
}

// CustomCall calls a function of the plugin by its name, such as
// "__gpu$xla.gpu.triton", through XLA's typed foreign function interface
// (api_version 4). Results have the given shapes.
//
// XLA checks neither the name nor the configuration before the program is
// compiled, and a plugin may crash on a wrong one: check them first. Operands and
// results lie row by row: the call says so, or XLA would turn them around as it
// suits the operations around it.
func (f *Function) CustomCall(target string, operands []compute.Value, outputs []shapes.Shape, config CallConfig) ([]compute.Value, error) {
	in, err := f.operands("CustomCall", operands...)
	if err != nil {
		return nil, err
	}
	if target == "" || len(outputs) == 0 {
		return nil, fmt.Errorf("hlo: CustomCall: got target %q with %d outputs, want a name and at least one output", target, len(outputs))
	}
	if err := CheckAliases(config.Aliases, shapesOf(in), outputs); err != nil {
		return nil, fmt.Errorf("hlo: CustomCall: %s: got %w", target, err)
	}
	results := make([]shapes.Shape, len(outputs))
	cost := config.Cost
	if cost.Bytes == 0 {
		cost.Bytes = bytesOf(shapesOf(in)...) + bytesOf(outputs...)
	}
	for i, s := range outputs {
		if err := writable("CustomCall "+target, s); err != nil {
			return nil, err
		}
		results[i] = s.Clone()
	}
	attrs := " {api_version = 4 : i32, operand_layouts = " + layouts(shapesOf(in)) + ", result_layouts = " + layouts(results)
	if len(config.Backend) > 0 {
		attrs += ", backend_config = {"
		for i, key := range slices.Sorted(maps.Keys(config.Backend)) {
			if i > 0 {
				attrs += ", "
			}
			text, err := attribute(config.Backend[key])
			if err != nil || !isWord(key) {
				return nil, fmt.Errorf("hlo: CustomCall: %s: configuration %q: got %T, want a word with a string or an int", target, key, config.Backend[key])
			}
			attrs += key + " = " + text
		}
		attrs += "}"
	}
	for i, out := range slices.Sorted(maps.Keys(config.Aliases)) {
		operand := config.Aliases[out]
		if i == 0 {
			attrs += ", output_operand_aliases = ["
		} else {
			attrs += ", "
		}
		tuple := ""
		if len(results) > 1 {
			tuple = strconv.Itoa(out)
		}
		attrs += "#stablehlo.output_operand_alias<output_tuple_indices = [" + tuple + "], operand_index = " +
			strconv.Itoa(operand) + ", operand_tuple_indices = []>"
	}
	if len(config.Aliases) > 0 {
		attrs += "]"
	}
	name, _ := config.Backend["name"].(string)
	return values(f.add(&statement{
		op: "stablehlo.custom_call @" + quoteSymbol(target), form: formCall, in: in, attrs: attrs + "}",
		call: name, cost: cost,
	}, results...)), nil
}

// layouts are those of arrays that lie row by row: their axes, the last one first.
func layouts(of []shapes.Shape) string {
	l := make([]string, len(of))
	for i, s := range of {
		axes := make([]int, s.Rank())
		for k := range axes {
			axes[k] = s.Rank() - 1 - k
		}
		l[i] = "dense<" + list(axes) + "> : tensor<" + strconv.Itoa(len(axes)) + "xindex>"
		if len(axes) == 0 {
			l[i] = "dense<> : tensor<0xindex>"
		}
	}
	return "[" + strings.Join(l, ", ") + "]"
}

// attribute writes a value as MLIR has it in a dictionary.
func attribute(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return quote(x), nil
	case int32:
		return strconv.Itoa(int(x)) + " : i32", nil
	case int:
		return strconv.Itoa(x) + " : i64", nil
	}
	return "", fmt.Errorf("got %T", v)
}

// quote writes a string as MLIR reads it: everything that is not plain is a
// backslash and two hexadecimal digits.
func quote(s string) string {
	b := []byte{'"'}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			b = fmt.Appendf(b, "\\%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// isWord reports whether s needs no quotes as a key or symbol.
func isWord(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		other := c >= '0' && c <= '9' || c == '$' || c == '.'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return s != ""
}

func quoteSymbol(s string) string {
	if isWord(s) {
		return s
	}
	return quote(s)
}

// OptimizationBarrier returns its operands; XLA moves nothing across it.
func (f *Function) OptimizationBarrier(operands ...compute.Value) ([]compute.Value, error) {
	if write := f.builder.replace; write != nil {
		f.builder.replace = nil
		return write(f, operands)
	}
	in, err := f.operands("OptimizationBarrier", operands...)
	if err != nil {
		return nil, err
	}
	if len(in) == 0 {
		return nil, fmt.Errorf("hlo: OptimizationBarrier: got no operands, want at least one")
	}
	return values(f.add(&statement{op: "stablehlo.optimization_barrier", form: formGeneric, in: in}, shapesOf(in)...)), nil
}

// SchedulingBarrier returns operand, computed no earlier than dependencies.
//
// XLA has no such op, and on a CPU drops its optimization barriers before it
// orders the work. So the result is made to depend on one element of each
// dependency: as an integer, and-ed with a zero that XLA does not know to be one, it decides
// between zeros and the operand, which is always chosen, bit for bit.
func (f *Function) SchedulingBarrier(operand compute.Value, dependencies ...compute.Value) (compute.Value, error) {
	in, err := f.operands("SchedulingBarrier", append([]compute.Value{operand}, dependencies...)...)
	if err != nil || len(dependencies) == 0 {
		return operand, err
	}
	scalar := shapes.Shape{DType: dtypes.Int32}
	nought := f.constant("dense<0>", scalar)
	hidden := f.one(&statement{op: "stablehlo.optimization_barrier", form: formGeneric, in: []*value{nought}}, scalar)
	sum := hidden
	for _, d := range in[1:] {
		if d.shape.Size() == 0 {
			continue
		}
		rank := d.shape.Rank()
		if rank > 0 {
			corner := shapes.Shape{DType: d.shape.DType, Dimensions: repeat(1, rank)}
			d = f.slice(d, corner, repeat(0, rank), repeat(1, rank), repeat(1, rank))
			d = f.reshape(d, shapes.Shape{DType: d.shape.DType})
		}
		if d.shape.DType.IsComplex() {
			re, err := f.Real(d)
			if err != nil {
				return nil, err
			}
			d = re.(*value)
		}
		if d.shape.DType != dtypes.Int32 {
			d = f.convert(d, dtypes.Int32)
		}
		masked := f.one(&statement{op: "stablehlo.and", in: []*value{d, hidden}}, scalar)
		sum = f.one(&statement{op: "stablehlo.or", in: []*value{sum, masked}}, scalar)
	}
	never := f.one(compareStatement("NE", "SIGNED", []*value{sum, nought}, shapes.Shape{DType: dtypes.Bool}), shapes.Shape{DType: dtypes.Bool})
	zeros, err := f.number("SchedulingBarrier", zero, in[0].shape.DType)
	if err != nil {
		return nil, err
	}
	zeros = f.spread(zeros, in[0].shape.Dimensions)
	return f.Where(never, zeros, in[0])
}
