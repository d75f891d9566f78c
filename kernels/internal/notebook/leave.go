package notebook

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gaiden/kernels/internal/cell/gaidenkeep"
)

// A cell's program is a process of its own. What it has changed of its working
// directory and its environment is there for the next cells, as if they were one
// process: see gaidenstack.Leave.

// adopt takes over what a program has left in a file, and removes it.
func (n *Notebook) adopt(file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		return // nothing has changed
	}
	os.Remove(file)
	for line := range strings.Lines(string(data)) {
		switch f := gaidenkeep.Fields(line); {
		case len(f) == 2 && f[0] == "directory":
			if info, err := os.Stat(f[1]); err == nil && info.IsDir() && filepath.IsAbs(f[1]) {
				n.move(f[1])
			}
		case len(f) == 3 && f[0] == "set":
			n.mu.Lock()
			n.env[f[1]] = &f[2]
			n.follow()
			n.mu.Unlock()
		case len(f) == 2 && f[0] == "unset":
			n.mu.Lock()
			n.env[f[1]] = nil
			n.follow()
			n.mu.Unlock()
		}
	}
}

// move changes the directory of cells and commands.
func (n *Notebook) move(dir string) {
	n.mu.Lock()
	n.Dir, n.before = dir, n.Dir
	n.mu.Unlock()
	n.building.Lock()
	n.builder.Dir = dir
	n.building.Unlock()
}

// follow changes the variables of this process that cells and magics share. n.mu is held.
func (n *Notebook) follow() {
	for _, name := range n.Follows {
		value, changed := n.env[name]
		first, noted := n.followed[name]
		switch {
		case !changed && !noted:
			continue
		case !changed:
			value = first
		case !noted:
			if v, is := os.LookupEnv(name); is {
				first = &v
			}
			n.followed[name] = first
		}
		if value == nil {
			os.Unsetenv(name)
		} else {
			os.Setenv(name, *value)
		}
	}
}

// environ returns the environment of the programs that cells run.
func (n *Notebook) environ() (env []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range append(os.Environ(), "GONB_DIR="+n.Dir, "GONB_TMP_DIR="+n.module.Dir, "PWD="+n.Dir) {
		if name, _, _ := strings.Cut(v, "="); n.env[name] == nil {
			if _, unset := n.env[name]; !unset {
				env = append(env, v)
			}
		}
	}
	return append(env, n.settings()...)
}

// settings lists the variables that %env and cells have set. The caller holds n.mu.
func (n *Notebook) settings() (env []string) {
	for name, value := range n.env {
		if value != nil {
			env = append(env, name+"="+*value)
		}
	}
	slices.Sort(env)
	return env
}

// getenv returns a variable of the environment of cells. The caller holds n.mu.
func (n *Notebook) getenv(name string) (value string, ok bool) {
	if v, here := n.env[name]; here && v != nil {
		return *v, true
	} else if here {
		return "", false
	}
	return os.LookupEnv(name)
}
