package keep

// Suppose remembers a program as if it had run and left its variables, of which only the types
// are known: for checking the cells after it. A memory with such variables is for no program
// that runs.
func (c *Composer) Suppose(p *Program) {
	c.Remember(p)
	m := c.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, def := range p.unit.Definitions {
		if def.Decl != nil { // where the type cannot be written, its definition tells it
			m.addDecl(def.Decl)
		}
	}
	for name, typ := range p.tracked {
		delete(m.unkept, name)
		delete(m.lost, name)
		if typ != "" {
			v := &keptVar{name: name, typ: typ, cell: p.unit.ID, group: &keptGroup{}}
			v.group.vars = []*keptVar{v}
			m.kept[name] = v
		}
	}
}
