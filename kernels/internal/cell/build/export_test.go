package build

// What tests of package build_test look at.

type Index = index

func (s *Store) Wait()                          { s.putting.Wait() }
func (m *Module) CacheKey() string              { return m.key }
func (m *Module) Compiled() map[string]*Package { return m.state.Packages }
func (b *Builder) Object() string               { return b.object() }
