package keep

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gaiden/kernels/internal/cell/parse"
)

// An unkept variable is one whose value could not be kept. A cell that uses it
// gets it from its definition, if that is sure to make the same value; else such
// a use is an error.
type unkept struct {
	typ     typeText // empty where only its own package can name it
	why     string   // the value cannot be kept
	cell    int      // whose program ended with it
	repeats bool     // its definition may be evaluated again, and the value was what that makes
	ended   bool     // the program was ended before it came to keep anything

	state map[string]string // what the definition depends on, as it was
}

// state describes what an initializer depends on: values and definitions. m.mu is
// held.
func (m *Memory) state(uses map[string]bool) map[string]string {
	out := map[string]string{}
	for name := range uses {
		switch k, d := m.kept[name], m.decls[name]; {
		case k != nil && k.bytes <= summed:
			out[name] = fmt.Sprintf("%s %x", k.typ, k.sum)
		case k != nil:
			out[name] = fmt.Sprintf("%p", k)
		case d != nil:
			out[name] = d.Text
		}
	}
	return out
}

// barred says why a program cannot have a variable; empty if it can, or there is
// no such variable. A program that is alone has package-level variables as they
// are declared. m.mu is held.
func (m *Memory) barred(name string, alone bool) string {
	u, ok := m.unkept[name]
	switch d := m.decls[name]; {
	case !ok, m.kept[name] != nil, alone && (d == nil || !d.Short):
		return ""
	case u.ended:
		return fmt.Sprintf("cell %d was ended before the value of %s was kept, and its definition is not run again by itself", u.cell, name)
	}
	text := fmt.Sprintf("the value of %s could not be kept after cell %d: %s", name, u.cell, u.why)
	if !u.repeats {
		return text
	}
	uses := map[string]bool{}
	for other := range u.state {
		uses[other] = true
	}
	now := m.state(uses)
	var changed []string
	for other, was := range u.state {
		if now[other] != was {
			changed = append(changed, other)
		}
	}
	if len(changed) == 0 {
		return ""
	}
	slices.Sort(changed)
	return text + ", and its definition uses " + strings.Join(changed, ", ") + ", changed since"
}

// refused says why the program of a unit cannot have a variable, and what to do;
// both are empty if it can.
func (m *Memory) refused(name string, u *parse.Unit) (reason, hint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reason = m.barred(name, u.Alone())
	if reason == "" {
		return "", ""
	}
	v, d := m.unkept[name], m.decls[name]
	source, _, _ := v.typ.split(guessName)
	where := fmt.Sprintf("run cell %d again", v.cell)
	if d != nil {
		where = fmt.Sprintf("run cell %d again", d.Cell)
	}
	switch {
	case v.ended:
		return reason, where
	case strings.Contains(v.why, "GiB"):
		return reason, "make it in the cell that uses it, or write it to a file and read it from there"
	case source == "":
		return reason, "define " + name + " in the cell that uses it, or in a function that such cells call"
	}
	first, size := utf8.DecodeRuneInString(name)
	return reason, fmt.Sprintf("define %s in the cell that uses it (what is open, running or random starts there), or in a function that such cells call: func new%s() %s { … }",
		name, string(unicode.ToUpper(first))+name[size:], source)
}

// hidden finds names that a variable hides which the program cannot have: they
// would mean what Go predeclares.
func (c *Composer) hidden(w *writer, r report) (errs []types.Error) {
	for id, obj := range r.Info.Uses {
		if obj.Parent() != types.Universe {
			continue
		}
		if reason, _ := c.Memory.refused(obj.Name(), w.unit); reason != "" {
			errs = append(errs, types.Error{Fset: r.Fset, Pos: id.Pos(), Msg: "undefined: " + obj.Name()})
		}
	}
	slices.SortFunc(errs, func(a, b types.Error) int { return int(a.Pos - b.Pos) })
	return errs
}
