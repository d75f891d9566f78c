package emulate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// op is a line of a kernel, with the regions it has.
type op struct {
	line    string
	name    string   // with the predicate of a comparison
	results []string // names
	args    []string
	types   []triton.Type // of the results
	params  []string      // of the region: for's index and carried values, reduce's pairs
	number  int           // an axis, or the end of a range
	text    string        // a constant,
	order   []int
	body    []*op
	other   []*op // else
}

var (
	nameOf   = regexp.MustCompile(`%[A-Za-z0-9_]+(#[0-9]+)?`)
	typeOf   = regexp.MustCompile(`tensor<([0-9x]+)x(!tt\.ptr<\w+>|\w+)>|!tt\.ptr<(\w+)>|\b(i1|i8|i32|i64|f32|bf16|f16)\b`)
	axisOf   = regexp.MustCompile(`(?:axis|end) = (\d+)`)
	symbolOf = regexp.MustCompile(`symbol = "(\w+)"|inline_asm "([\w.]+) `)
	orderOf  = regexp.MustCompile(`array<i32: ([0-9, ]+)>`)
	carries  = regexp.MustCompile(`(%\w+) = (%[A-Za-z0-9_#]+)`)
)

var elements = map[string]dtypes.DType{"i1": dtypes.Bool, "i8": dtypes.Uint8, "i32": dtypes.Int32, "i64": dtypes.Int64,
	"f32": dtypes.Float32, "bf16": dtypes.BFloat16, "f16": dtypes.Float16}

// typesIn finds the types in a text.
func typesIn(s string) []triton.Type {
	var l []triton.Type
	for _, m := range typeOf.FindAllStringSubmatch(s, -1) {
		t := triton.Type{DType: elements[m[4]]}
		element := m[2]
		for _, d := range strings.Split(m[1], "x") {
			if n, err := strconv.Atoi(d); err == nil {
				t.Dims = append(t.Dims, n)
			}
		}
		if m[3] != "" {
			t.Pointer, t.DType = true, elements[m[3]]
		}
		if element != "" {
			inner, is := strings.CutPrefix(strings.TrimSuffix(element, ">"), "!tt.ptr<")
			t.Pointer, t.DType = is, elements[inner]
		}
		l = append(l, t)
	}
	return l
}

// parse reads a module's lines.
func parse(text string) ([]*op, error) {
	var lines []string
	for _, l := range strings.Split(text, "\n") {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "//") && !strings.HasPrefix(l, "module") && !strings.HasPrefix(l, "tt.func") {
			lines = append(lines, l)
		}
	}
	body, _, err := region(lines)
	return body, err
}

// region reads lines up to the one that closes the region, and returns the
// rest from there on.
func region(lines []string) (body []*op, rest []string, err error) {
	for len(lines) > 0 && lines[0][0] != '}' {
		l := lines[0]
		o := &op{line: l}
		lines = lines[1:]
		left, right, assigned := strings.Cut(l, " = ")
		if !assigned || !strings.HasPrefix(left, "%") {
			left, right = "", l
		}
		o.results = append(o.results, nameOf.FindAllString(left, -1)...)
		if base, count, many := strings.Cut(left, ":"); many {
			n, _ := strconv.Atoi(count)
			o.results = nil
			for i := range n {
				o.results = append(o.results, fmt.Sprintf("%s#%d", base, i))
			}
		}
		o.name, _, _ = strings.Cut(strings.ReplaceAll(right, "(", " "), " ")
		o.name = strings.Trim(o.name, `"`)
		head, tail := right, right
		if i := strings.LastIndex(right, " : "); i >= 0 {
			head, tail = right[:i], right[i:]
		}
		if i := strings.LastIndex(tail, "-> "); i >= 0 {
			tail = tail[i:]
		} else if i := strings.LastIndex(tail, " to "); i >= 0 && strings.HasPrefix(o.name, "arith.") {
			tail = tail[i:]
		}
		o.types = typesIn(tail)
		o.args = nameOf.FindAllString(head, -1)
		if m := axisOf.FindStringSubmatch(head); m != nil {
			o.number, _ = strconv.Atoi(m[1])
		}
		if m := symbolOf.FindStringSubmatch(head); m != nil {
			o.name = m[1] + m[2]
		}
		if m := orderOf.FindStringSubmatch(head); m != nil {
			for _, f := range strings.Split(m[1], ", ") {
				n, _ := strconv.Atoi(f)
				o.order = append(o.order, n)
			}
		}
		switch o.name {
		case "arith.constant":
			o.text = strings.Fields(right)[1]
			if len(o.types) == 0 { // true and false stand alone
				o.types = []triton.Type{{DType: dtypes.Bool}}
			}
		case "arith.cmpf", "arith.cmpi":
			o.name += " " + strings.TrimSuffix(strings.Fields(right)[1], ",")
		case "tt.get_program_id":
			o.number = strings.Index("xyz", strings.Fields(right)[1])
		case "scf.for":
			bounds, carried, _ := strings.Cut(right, "iter_args")
			names := nameOf.FindAllString(bounds, -1)
			o.params, o.args = names[:1:1], names[1:4:4]
			carried, _, _ = strings.Cut(carried, "->")
			for _, m := range carries.FindAllStringSubmatch(carried, -1) {
				o.params, o.args = append(o.params, m[1]), append(o.args, m[2])
			}
			o.body, lines, err = region(lines)
		case "tt.reduce":
			o.params = nameOf.FindAllString(lines[0], -1)
			n := len(o.params) / 2 // x0 i0 y0 i0: the first half is the first of each pair
			o.params = o.params[: 2*n : 2*n]
			o.body, lines, err = region(lines[1:])
			if err == nil {
				_, after, _ := strings.Cut(lines[0], "->")
				o.types = typesIn(after)
			}
		case "scf.if":
			if o.body, lines, err = region(lines); err == nil && strings.HasPrefix(lines[0], "} else") {
				o.other, lines, err = region(lines[1:])
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if o.body != nil {
			if len(lines) == 0 {
				return nil, nil, fmt.Errorf("no end of %s", l)
			}
			lines = lines[1:]
		}
		body = append(body, o)
	}
	return body, lines, nil
}
