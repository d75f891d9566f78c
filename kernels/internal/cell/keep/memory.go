package keep

import (
	"cmp"
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
