package notebook

import (
	"maps"

	"gaiden/kernels/internal/cell/keep"
)

// A Checkpoint is the state of a notebook between two cells: declarations, the
// values of variables, environment variables and the working directory. What
// cells have done elsewhere (files, modules, arrays of the session) is not in it.
type Checkpoint struct {
	n           *Notebook
	memory      *keep.Checkpoint
	env         map[string]*string
	dir, before string
}

// Checkpoint notes the state of the notebook. No cell may be running. Release it
// when it is not needed any more: until then values that were replaced stay on disk.
func (n *Notebook) Checkpoint() (*Checkpoint, error) {
	if err := n.open(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return &Checkpoint{n: n, memory: n.memory.Checkpoint(), env: maps.Clone(n.env), dir: n.Dir, before: n.before}, nil
}

// Restore makes the notebook what it was. The checkpoint stays valid.
func (c *Checkpoint) Restore() {
	c.n.memory.Restore(c.memory)
	c.n.move(c.dir)
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.n.env, c.n.before = maps.Clone(c.env), c.before
	c.n.follow()
}

// Release frees what the checkpoint holds.
func (c *Checkpoint) Release() { c.n.memory.Release(c.memory) }
