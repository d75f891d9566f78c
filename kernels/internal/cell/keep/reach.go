package keep

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell/parse"
)

// reach returns the declarations that the cell needs, in the order in which
// they were typed: its own, and of the remembered ones those that it names,
// directly or through others. What is not needed is not compiled: a cell costs
// what it uses, however long the notebook has become.
//
// Always needed are init functions (GoNB's init_name included) and blank vars,
// unless their initializers do something and the cell is no program of its own; in
// a test all remembered tests; and when the program takes arguments, vars made with package flag, since
// somebody has to know the flags.
//
// Where the value of a variable was kept, the program loads it, and its
// declaration is not needed; where it could not be kept, the declaration is left
// out unless it is sure to make the same value. But a cell that is a program of its own takes
// variables from their declarations, and only what has none from its value.
func (m *Memory) reach(u *parse.Unit) (decls []*parse.Decl, loads []loadedVar, imports []*parse.Import) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeMaps()
	r := m.newReach(u)
	for _, d := range u.Decls {
		r.add(d)
	}
	r.follow(u.Uses)
	if u.OwnMain != nil {
		r.follow(u.OwnMain.Uses)
	}
	for name, d := range m.decls {
		switch {
		case r.own[name]:
		case strings.HasPrefix(name, "_~") && (u.Alone() || d.Repeatable()), d.Kind == parse.Func && isInit(name):
			r.add(d)
		case d.Kind == parse.Var && len(u.Args) > 0 && d.Quals["flag"] != nil, u.Test && d.Kind == parse.Func && isTest(name):
			r.add(d)
		}
	}
	for len(r.todo) > 0 {
		d := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		r.follow(d.Uses)
		if d.Kind == parse.Type {
			for _, method := range r.methods[d.Names[0]] {
				r.add(method)
			}
		}
	}
	for d := range r.in {
		decls = append(decls, masked(d, u, func(name string) bool {
			return r.own[name] || r.valued(name) || m.barred(name, u.Alone()) != ""
		}))
	}
	slices.SortFunc(r.loads, func(a, b loadedVar) int { return strings.Compare(a.ident, b.ident) })
	slices.SortFunc(decls, func(a, b *parse.Decl) int { return cmp.Or(a.Cell-b.Cell, a.Start-b.Start) })
	sortInits(decls)
	return decls, r.loads, slices.AppendSeq(imports, maps.Values(m.imports))
}

// A reach is the search for what a cell needs. The memory's lock is held.
type reach struct {
	*Memory
	unit    *parse.Unit
	own     map[string]bool          // names that the cell itself declares
	methods map[string][]*parse.Decl // remembered ones, by type
	in      map[*parse.Decl]bool     // found
	todo    []*parse.Decl            // found, and not followed yet
	loads   []loadedVar
	loaded  map[*keptGroup]bool
}

func (m *Memory) newReach(u *parse.Unit) *reach {
	r := &reach{Memory: m, unit: u, own: map[string]bool{}, methods: map[string][]*parse.Decl{}, in: map[*parse.Decl]bool{}, loaded: map[*keptGroup]bool{}}
	noType := map[string]bool{}
	for _, d := range u.Decls {
		for _, name := range d.Names {
			r.own[name] = true
			noType[name] = d.Kind != parse.Type
		}
	}
	for name, d := range m.decls {
		if d.Kind == parse.Method && !r.own[name] {
			if t, _, _ := strings.Cut(name, "."); !noType[t] {
				r.methods[t] = append(r.methods[t], d)
			}
		}
	}
	return r
}

func (r *reach) add(d *parse.Decl) {
	if d != nil && !r.in[d] {
		r.in[d] = true
		r.todo = append(r.todo, d)
	}
}

// valued says whether the program loads a variable's value.
func (r *reach) valued(name string) bool {
	return r.kept[name] != nil && !r.own[name] && (!r.unit.Alone() || r.decls[name] == nil || r.decls[name].Short)
}

// load adds the values of a group, and what their types need.
func (r *reach) load(g *keptGroup) {
	if r.loaded[g] {
		return
	}
	r.loaded[g] = true
	for i, v := range g.vars {
		ident := v.name
		if r.kept[v.name] != v || !r.valued(v.name) {
			ident = fmt.Sprintf("gaiden_kept_%d_%s", i, v.name)
		}
		r.loads = append(r.loads, loadedVar{v, ident})
		_, _, types := v.typ.split(guessName)
		r.follow(types)
	}
	for _, t := range g.dynamic {
		_, _, types := t.split(guessName)
		r.follow(types)
	}
}

// follow adds what the names of a piece of code stand for.
func (r *reach) follow(uses map[string]bool) {
	for name := range uses {
		switch {
		case r.own[name]:
		case r.valued(name):
			r.load(r.kept[name].group)
		case r.barred(name, r.unit.Alone()) != "":
		default:
			r.add(r.decls[name])
		}
		for _, method := range r.methods[name] {
			r.add(method)
		}
	}
}

// sortInits puts init functions into the order of their names, as GoNB has it: Go
// runs them in the order in which they stand.
func sortInits(decls []*parse.Decl) {
	var at []int
	var inits []*parse.Decl
	for i, d := range decls {
		if d.Kind == parse.Func && isInit(d.Names[0]) {
			at, inits = append(at, i), append(inits, d)
		}
	}
	slices.SortStableFunc(inits, func(a, b *parse.Decl) int { return strings.Compare(a.Names[0], b.Names[0]) })
	for n, i := range at {
		decls[i] = inits[n]
	}
}

// masked returns d without the names that the program has from elsewhere.
func masked(d *parse.Decl, u *parse.Unit, elsewhere func(name string) bool) *parse.Decl {
	if slices.Contains(u.Decls, d) || len(d.Names) < 2 {
		return d
	}
	for _, name := range d.Names {
		if name != "_" && elsewhere(name) {
			d = d.Without(name)
		}
	}
	return d
}

// isInit reports whether a function is run before main in every cell.
func isInit(name string) bool { return name == "init" || strings.HasPrefix(name, "init_") }
