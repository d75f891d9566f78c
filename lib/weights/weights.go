// Package weights says which arrays of a file are which variables of a net, and what became of
// each.
//
// Without a [Map], Net.LoadWeights of package fit expects the names and layouts that PyTorch has
// for the same layers. A Map is for files with other names, for parts of a net, and for files of
// which only some arrays fit:
//
//	table, err := net.LoadWeights("model.safetensors", weights.Map{
//		Names: []weights.Name{
//			{Variable: "block/*/norm/*", Array: "layers.*.ln.*"},                          // PyTorch's layout
//			{Variable: "head/weights", Array: "lm_head.kernel", Order: []int{0, 1}},        // [in out], as in Flax
//			{Variable: "block/*/key/weights", Array: "layers.*.qkv", From: 64, To: 128},    // a part of an array
//		},
//		Only:    []string{"block"}, // the head stays as it is
//		Partial: true,                // what is missing or has another shape stays as it is
//	})
//	fmt.Println(table) // what was loaded, and what was not and why
//
// Net.SaveWeights takes a Map, too, and writes a file with its names and layouts.
package weights

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
)

// Map says how the variables of a net are kept in a file. The zero value is PyTorch's way.
type Map struct {
	Names   []Name   // a variable is in the first that has its name, else where PyTorch has it
	Only    []string // layers, or patterns of variables, to load or save, such as "body", "*/biases"; default: all
	Ignore  []string // patterns of arrays that may be surplus
	Partial bool     // loads what is there and fits; the rest of the net stays as it is
	Merge   bool     // saves weights with LoRA's products added to them, as a net without LoRA has them
}

// Name says in which array of a file variables are.
type Name struct {
	// Variable is a pattern in which * stands for any text, and Array has the same text at its
	// own stars, in turn.
	Variable, Array string
	// Order says which axis of the variable each axis of the array is, such as 1, 0 for a
	// matrix that is transposed; -1: none, for an axis of length 1. Default: PyTorch's order, which
	// for vectors that are flattened images is channels first within an axis, too.
	Order []int
	// From and To are the part of the array's axis Axis that the variable is; default: all of it.
	Axis, From, To int
}

// Find is where a variable is, with the names of both filled in.
func (m Map) Find(variable string) (name Name, is bool) {
	for _, n := range m.Names {
		stars := compile(n.Variable).FindStringSubmatch(variable)
		if stars == nil {
			continue
		}
		n.Variable = variable
		for _, s := range stars[1:] {
			n.Array = strings.Replace(n.Array, "*", s, 1)
		}
		return n, true
	}
	return Name{Variable: variable}, false
}

// Wants says whether a variable is to be loaded.
func (m Map) Wants(variable string) bool {
	return len(m.Only) == 0 || slices.ContainsFunc(m.Only, func(p string) bool { return compile(p).MatchString(variable) || strings.HasPrefix(variable, p+"/") })
}

// Ignores says whether an array may be surplus.
func (m Map) Ignores(array string) bool {
	return slices.ContainsFunc(m.Ignore, func(p string) bool { return compile(p).MatchString(array) })
}

// Check says what is wrong with the map; variables are those of the net.
func (m Map) Check(variables []string) error {
	for _, n := range m.Names {
		if strings.Count(n.Array, "*") > strings.Count(n.Variable, "*") || n.Array == "" {
			return fmt.Errorf("Names: array %q of variable %q: want a name with no more stars than the variable has", n.Array, n.Variable)
		}
		if n.From < 0 || n.Axis < 0 || n.To != 0 && n.To <= n.From {
			return fmt.Errorf("Names: variable %q: part %d to %d of axis %d: want a part of one or more", n.Variable, n.From, n.To, n.Axis)
		}
	}
	for _, pattern := range m.Only {
		if one := (Map{Only: []string{pattern}}); !slices.ContainsFunc(variables, one.Wants) {
			return fmt.Errorf("Only: no variable matches %q: want a layer, or a pattern of some of %s", pattern, strings.Join(variables, ", "))
		}
	}
	return nil
}

func compile(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, "(.*)") + "$")
}

// Table says what was loaded.
type Table struct {
	File   string
	Loaded []Row
	Left   []Row // variables that stayed as they were
	Unused []Row // arrays of the file that no variable took
}

// Row is a variable, an array, or both.
type Row struct {
	Variable, Array string
	Type            string // of the array's elements, such as BF16
	Shape           []int
	Why             string // it was not loaded
}

// HTML is the same, in lines that a narrow page does not break.
func (t Table) HTML() string {
	return `<pre style="white-space:pre;margin:0">` + html.EscapeString(t.String()) + "</pre>"
}

// String has a line for what was loaded, and one for each variable and array that was not.
func (t Table) String() string {
	if t.File == "" {
		return "nothing was loaded"
	}
	numbers := 0
	types := map[string]bool{}
	var kinds []string
	for _, r := range t.Loaded {
		size := 1
		for _, d := range r.Shape {
			size *= d
		}
		numbers += size
		if !types[r.Type] {
			types[r.Type] = true
			kinds = append(kinds, r.Type)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "loaded %d of %d variables, %d numbers, %s, from %s", len(t.Loaded), len(t.Loaded)+len(t.Left), numbers, strings.Join(kinds, " and "), t.File)
	for _, l := range [][]Row{t.Left, t.Unused} {
		for _, r := range l {
			name, what := r.Variable, "kept"
			if name == "" {
				name, what = r.Array, "not used"
			}
			fmt.Fprintf(&b, "\n%-9s %-40s %-16s %s", what, name, fmt.Sprint(r.Shape), r.Why)
		}
	}
	return b.String()
}
