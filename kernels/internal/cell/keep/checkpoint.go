package keep

import (
	"maps"
	"slices"

	"gaiden/kernels/internal/cell/parse"
)

// A Checkpoint is what a Memory held at one moment. It keeps the files of the
// values, so that Restore brings them back; Release lets them go.
type Checkpoint struct {
	decls   map[string]*parse.Decl
	imports map[string]*parse.Import
	lost    map[string]int
	kept    map[string]*keptVar
	unkept  map[string]unkept
	files   []string
}

// Checkpoint notes what m holds.
func (m *Memory) Checkpoint() *Checkpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeMaps()
	c := &Checkpoint{decls: maps.Clone(m.decls), imports: maps.Clone(m.imports), lost: maps.Clone(m.lost), kept: maps.Clone(m.kept), unkept: maps.Clone(m.unkept)}
	for _, k := range m.kept {
		if !slices.Contains(c.files, k.group.file) {
			c.files = append(c.files, k.group.file)
		}
	}
	m.holdFiles(c.files, 1)
	return c
}

// Restore makes m what it was at the checkpoint, which stays valid.
func (m *Memory) Restore(c *Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decls, m.imports, m.lost, m.kept, m.unkept = maps.Clone(c.decls), maps.Clone(c.imports), maps.Clone(c.lost), maps.Clone(c.kept), maps.Clone(c.unkept)
}

// Release lets a checkpoint's files go. It cannot be restored any more.
func (m *Memory) Release(c *Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holdFiles(c.files, -1)
	c.files = nil
}

// holdFiles counts files that are needed, by n. m.mu is held.
func (m *Memory) holdFiles(files []string, n int) {
	if m.held == nil {
		m.held = map[string]int{}
	}
	for _, file := range files {
		if m.held[file] += n; m.held[file] == 0 {
			delete(m.held, file)
		}
	}
}
