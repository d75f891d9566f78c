package keep

import (
	"cmp"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell/parse"
)

// A Value is a line of the list of variables.
type Value struct {
	Name  string
	Type  string // as Go writes it; empty while it is not known, or where only its own package can name it
	Cell  int    // that gave it its value, or that declares it
	Bytes int64  // that the value takes; 0 if it is not kept
	Text  string // the value's beginning; or why there is none
}

// Values lists the variables, sorted by name.
func (m *Memory) Values() []Value {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Value
	for name, k := range m.kept {
		source, _, _ := k.typ.split(guessName)
		out = append(out, Value{name, source, k.cell, k.bytes, k.preview})
	}
	for name, d := range m.decls {
		if d.Kind != parse.Var || m.kept[name] != nil || strings.HasPrefix(name, "_~") {
			continue
		}
		v := Value{Name: name, Cell: d.Cell, Text: "not run yet; begins as declared"}
		if u, ok := m.unkept[name]; ok {
			v.Type, _, _ = u.typ.split(guessName)
			v.Text = m.barred(name, false)
			if v.Text == "" {
				v.Text = "defined again in each cell that uses it"
			}
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Value) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
