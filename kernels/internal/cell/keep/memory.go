package keep

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gaiden/kernels/internal/cell/parse"
)

// A Memory holds the declarations of earlier cells, and where the values of
// their variables are. The zero value is empty and ready; all methods may be
// called at the same time.
//
// A later declaration of a name replaces the earlier one, whatever kind it
// was. Where several names share one declaration (var a, b = f(), or consts
// that count), a replaced name becomes the blank one and the rest stays.
type Memory struct {
	mu      sync.Mutex
	decls   map[string]*parse.Decl   // every name, methods as "T.Method"
	imports map[string]*parse.Import // by the name that the code uses, see importKey
	nothing int                      // counts blank declarations, so that each has a key
	lost    map[string]int           // names that := defined in a cell that did not come to keep them, and the cell

	kept   map[string]*keptVar
	unkept map[string]unkept
	files  int            // counts the files of kept values
	held   map[string]int // those that running programs read, and how many do
}

// importKey returns what an import is remembered under. name is the name of
// the package, known only to the compiler where the import does not give one.
func importKey(im *parse.Import, name string) string {
	switch im.Name {
	case "":
		return name
	case ".", "_":
		return im.Name + " " + im.Path
	}
	return im.Name
}

// remember takes in the declarations of a cell that has been compiled.
func (m *Memory) remember(p *Program, nameOf func(path string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeMaps()
	u := p.unit
	for _, d := range u.Decls {
		m.addDecl(d)
		for _, name := range d.Names {
			// A program that runs leaves new values; if it is killed, the old ones stay.
			_, leaves := p.tracked[name]
			if !leaves || d.Kind != parse.Var {
				delete(m.kept, name)
			}
			delete(m.unkept, name)
			if leaves && !d.Repeatable() {
				m.unkept[name] = unkept{typ: p.tracked[name], cell: u.ID, ended: true} // until it has left something
			}
		}
	}
	for _, im := range u.Imports {
		if u.Shown != "" && im.Name != "" && !strings.Contains(u.Shown, im.Name) {
			continue // a magic has added it
		}
		m.imports[importKey(im, nameOf(im.Path))] = im
	}
	for _, def := range u.Definitions {
		for _, name := range def.Names {
			if m.decls[name] == nil && m.kept[name] == nil {
				m.lost[name] = u.ID
			}
		}
	}
}

// makeMaps makes the maps. m.mu is held.
func (m *Memory) makeMaps() {
	if m.decls == nil {
		m.decls, m.imports, m.lost = map[string]*parse.Decl{}, map[string]*parse.Import{}, map[string]int{}
		m.kept, m.unkept = map[string]*keptVar{}, map[string]unkept{}
	}
}

// addDecl remembers one declaration. m.mu is held.
func (m *Memory) addDecl(d *parse.Decl) {
	for _, name := range d.Names {
		if name == "_" {
			m.nothing++
			if len(d.Names) == 1 {
				m.decls["_"+strings.Repeat("~", m.nothing)] = d
			}
			continue
		}
		if old := m.decls[name]; old != nil && old != d {
			m.replace(old, name)
			if d.Kind != parse.Type && old.Kind == parse.Type {
				m.dropMethods(name)
			}
		}
		delete(m.lost, name)
		m.decls[name] = d
	}
}

// replace takes one of the names away from a declaration with several. The
// declaration itself is not changed: others may be reading it.
func (m *Memory) replace(d *parse.Decl, name string) {
	if len(d.Names) < 2 {
		return
	}
	c := d.Without(name)
	for _, n := range d.Names {
		if m.decls[n] == d {
			m.decls[n] = c
		}
	}
}

func (m *Memory) dropMethods(typeName string) {
	maps.DeleteFunc(m.decls, func(name string, d *parse.Decl) bool {
		return d.Kind == parse.Method && strings.HasPrefix(name, typeName+".")
	})
}

// Reset forgets everything, and removes the values in home that nothing holds.
func (m *Memory) Reset(home string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decls, m.imports, m.lost = nil, nil, nil
	m.kept, m.unkept = nil, nil
	m.sweep(home)
}

// Forget drops a declaration or an import by its name and says what it was.
// Forgetting a type drops its methods. The method M of type T is "T.M"; GoNB's
// way of writing it, "T~M", is understood.
func (m *Memory) Forget(name string) (kind string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = strings.Replace(name, "~", ".", 1)
	_, kept := m.kept[name]
	_, without := m.unkept[name]
	_, lost := m.lost[name]
	delete(m.kept, name)
	delete(m.unkept, name)
	delete(m.lost, name)
	if (kept || without || lost) && m.decls[name] == nil {
		return parse.Var.String(), true
	}
	if d := m.decls[name]; d != nil {
		delete(m.decls, name)
		m.replace(d, name)
		if d.Kind == parse.Type {
			m.dropMethods(name)
		}
		return d.Kind.String(), true
	}
	for key, im := range m.imports {
		if key == name || im.Path == name {
			delete(m.imports, key)
			return "import", true
		}
	}
	return "", false
}

// An Entry is a line of the list of what is remembered.
type Entry struct {
	Kind string // "import", "const", "type", "var", "func" or "method"
	Name string
	Text string // the declaration's first line
	Cell int
}

// Entries lists what is remembered, sorted by kind and name.
func (m *Memory) Entries() []Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Entry
	for key, im := range m.imports {
		out = append(out, Entry{"import", key, im.Path, im.Cell})
	}
	for name, d := range m.decls {
		if strings.HasPrefix(name, "_~") {
			name = "_"
		}
		first, _, more := strings.Cut(strings.TrimSpace(d.Text), "\n")
		if more {
			first += " …"
		}
		out = append(out, Entry{d.Kind.String(), name, first, d.Cell})
	}
	for name, k := range m.kept {
		if m.decls[name] == nil {
			out = append(out, Entry{parse.Var.String(), name, name, k.cell})
		}
	}
	order := []string{"import", "const", "type", "var", "func", "method"}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(slices.Index(order, a.Kind)-slices.Index(order, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return out
}

// definedIn returns the cell in whose main a name was last defined with :=.
func (m *Memory) definedIn(name string) (id int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok = m.lost[name]
	return id, ok
}

// Names returns every remembered name of the package scope.
func (m *Memory) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name := range m.decls {
		if !strings.HasPrefix(name, "_~") {
			out = append(out, name)
		}
	}
	for name := range m.kept {
		if m.decls[name] == nil {
			out = append(out, name)
		}
	}
	return out
}

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
	own, noType := map[string]bool{}, map[string]bool{}
	for _, d := range u.Decls {
		for _, name := range d.Names {
			own[name] = true
			noType[name] = d.Kind != parse.Type
		}
	}
	methods := map[string][]*parse.Decl{} // by type
	for name, d := range m.decls {
		if d.Kind == parse.Method && !own[name] {
			if t, _, _ := strings.Cut(name, "."); !noType[t] {
				methods[t] = append(methods[t], d)
			}
		}
	}
	in := map[*parse.Decl]bool{}
	var todo []*parse.Decl
	add := func(d *parse.Decl) {
		if d != nil && !in[d] {
			in[d] = true
			todo = append(todo, d)
		}
	}
	valued := func(name string) bool {
		return m.kept[name] != nil && !own[name] && (!u.Alone() || m.decls[name] == nil || m.decls[name].Short)
	}
	loaded := map[*keptGroup]bool{}
	var follow func(uses map[string]bool)
	load := func(g *keptGroup) {
		if loaded[g] {
			return
		}
		loaded[g] = true
		for i, v := range g.vars {
			ident := v.name
			if m.kept[v.name] != v || !valued(v.name) {
				ident = fmt.Sprintf("gaiden_kept_%d_%s", i, v.name)
			}
			loads = append(loads, loadedVar{v, ident})
			_, _, types := v.typ.split(guessName)
			follow(types)
		}
		for _, t := range g.dynamic {
			_, _, types := t.split(guessName)
			follow(types)
		}
	}
	follow = func(uses map[string]bool) {
		for name := range uses {
			switch {
			case own[name]:
			case valued(name):
				load(m.kept[name].group)
			case m.barred(name, u.Alone()) != "":
			default:
				add(m.decls[name])
			}
			for _, method := range methods[name] {
				add(method)
			}
		}
	}
	for _, d := range u.Decls {
		in[d] = true
		todo = append(todo, d)
	}
	follow(u.Uses)
	if u.OwnMain != nil {
		follow(u.OwnMain.Uses)
	}
	for name, d := range m.decls {
		switch {
		case own[name]:
		case strings.HasPrefix(name, "_~") && (u.Alone() || d.Repeatable()), d.Kind == parse.Func && isInit(name):
			add(d)
		case d.Kind == parse.Var && len(u.Args) > 0 && d.Quals["flag"] != nil, u.Test && d.Kind == parse.Func && isTest(name):
			add(d)
		}
	}
	for len(todo) > 0 {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		follow(d.Uses)
		if d.Kind == parse.Type {
			for _, method := range methods[d.Names[0]] {
				add(method)
			}
		}
	}
	for d := range in {
		decls = append(decls, masked(d, u, func(name string) bool {
			return own[name] || valued(name) || m.barred(name, u.Alone()) != ""
		}))
	}
	slices.SortFunc(loads, func(a, b loadedVar) int { return strings.Compare(a.ident, b.ident) })
	slices.SortFunc(decls, func(a, b *parse.Decl) int { return cmp.Or(a.Cell-b.Cell, a.Start-b.Start) })
	sortInits(decls)
	return decls, loads, slices.AppendSeq(imports, maps.Values(m.imports))
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

// All returns what is remembered, in order, without the given names.
func (m *Memory) All(but map[string]bool) ([]*parse.Decl, map[string]*parse.Import) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[*parse.Decl]bool{}
	var out []*parse.Decl
	for name, d := range m.decls {
		if seen[d] || but[name] {
			continue
		}
		seen[d] = true
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *parse.Decl) int {
		if a.Cell != b.Cell {
			return a.Cell - b.Cell
		}
		return a.Start - b.Start
	})
	return out, maps.Clone(m.imports)
}
