package keep

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gaiden/kernels/internal/cell/gaidenkeep"
)

// A keptVar is a variable whose value a program has left for the next.
type keptVar struct {
	name    string
	typ     typeText
	cell    int
	bytes   int64
	preview string
	group   *keptGroup
	sum     [sha256.Size]byte // of the file; zero of a large one
}

// A keptGroup is a file with the values of one variable, or of several that
// share memory: they are loaded together, or their sharing would be lost.
type keptGroup struct {
	file    string
	vars    []*keptVar // all that the file holds, also what was replaced since
	dynamic []typeText // the types in its interfaces
}

// A loadedVar is a kept variable in a program.
type loadedVar struct {
	*keptVar
	ident string // what the program calls it; not its name if that means something else by now
}

// A Carry brings values from program to program: those that a program wants,
// and those that it leaves.
type Carry struct {
	memory  *Memory
	program *Program
	home    string // directory of all kept values
	dir     string // that of this program
}

// ErrReplaced says that a value which a program wants has been replaced since it
// was composed, by a program that ran at the same time: it has to be composed
// again.
var ErrReplaced = errors.New("cell: a value that the program wants was replaced while it was built")

// Carry prepares for a program to be run; home is a directory for the values,
// made if it is not there. nil means that there is nothing to carry. What it
// returns is to be taken: see Collect.
func (c *Composer) Carry(p *Program, home string) (*Carry, error) {
	if !p.carries {
		return nil, nil
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("cell: values: %w", err)
	}
	if !c.Memory.hold(p.loads) {
		return nil, ErrReplaced
	}
	dir, err := os.MkdirTemp(home, "run-")
	if err != nil {
		c.Memory.release(p.loads)
		return nil, fmt.Errorf("cell: values: %w", err)
	}
	var in bytes.Buffer
	for _, l := range p.loads {
		fmt.Fprintf(&in, "%q\t%q\n", l.name, l.group.file)
	}
	k := &Carry{c.Memory, p, home, dir}
	err = os.WriteFile(filepath.Join(dir, gaidenkeep.InFile), in.Bytes(), 0o600)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, gaidenkeep.LibraryFile), []byte(c.Module.LibraryPath()), 0o600)
	}
	if err != nil {
		c.Memory.release(p.loads)
		os.RemoveAll(dir)
		return nil, fmt.Errorf("cell: values: %w", err)
	}
	return k, nil
}

// Environ returns what the program's environment needs besides its own.
func (k *Carry) Environ() []string {
	if k == nil {
		return nil
	}
	return []string{gaidenkeep.Env + "=" + k.dir}
}

// Torn reports whether the program died while it was leaving its values: when
// its goroutines went on changing them, the Go runtime may have ended it.
func (k *Carry) Torn() bool {
	if k == nil {
		return false
	}
	_, err := os.Stat(filepath.Join(k.dir, gaidenkeep.SavingFile))
	return err == nil
}

// Stop asks a running program for the values that it has, and waits until they
// are there, but not for one that does not answer.
func (k *Carry) Stop(ended <-chan struct{}) {
	if k == nil || len(k.program.tracked) == 0 {
		return
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(k.dir, name))
		return err == nil
	}
	if os.WriteFile(filepath.Join(k.dir, gaidenkeep.StopFile), nil, 0o600) != nil {
		return
	}
	answer, done := time.After(stopAnswer), time.After(stopPatience)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return
		case <-done:
			return
		case <-answer:
			if !exists(gaidenkeep.SavingFile) {
				return
			}
		case <-look.C:
			if exists(gaidenkeep.ManifestFile) && !exists(gaidenkeep.SavingFile) {
				return
			}
		}
	}
}

// A program that is being stopped begins to save its values within stopAnswer, and
// has done so within stopPatience.
const (
	stopAnswer   = 150 * time.Millisecond
	stopPatience = 1200 * time.Millisecond
)

// Collect reads what the program has left. A program that was stopped or killed
// has left nothing: what was kept before stays. With stale the program has not
// run: a value that it wanted is none of its type any more, and is forgotten;
// the cell has to be composed again. notes say so.
func (k *Carry) Collect(ended bool) (stale bool, notes []string) {
	if k == nil {
		return false, nil
	}
	defer os.RemoveAll(k.dir)
	m := k.memory
	m.release(k.program.loads)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.sweep(k.home)
	data, err := os.ReadFile(filepath.Join(k.dir, gaidenkeep.ManifestFile))
	if err != nil {
		if ended {
			k.finish(nil)
		}
		if len(k.program.tracked) > 0 {
			notes = append(notes, "the cell ended before its variables were kept: they are as they were before it")
		}
		return false, notes
	}
	groups := map[string]*keptGroup{}
	left := map[string]bool{}
	var again, stopped []string
	for line := range strings.Lines(string(data)) {
		f := gaidenkeep.Fields(line)
		if len(f) < 2 {
			continue
		}
		name := f[1]
		switch f[0] {
		case "stale":
			stale = true
			notes = append(notes, m.drop(name, f[2])...)
		case "kept":
			left[name] = true
			k.adopt(groups, f)
		case "same":
			left[name] = true
		case "again", "lost":
			left[name] = true
			delete(m.kept, name)
			if strings.HasPrefix(f[2], gaidenkeep.NotWritten) {
				notes = append(notes, "the value of "+name+" is not kept: "+f[2])
			}
			v := unkept{typ: k.program.tracked[name], why: f[2], cell: k.program.unit.ID}
			if f[0] == "again" {
				again = append(again, name)
				v.state = m.unkept[name].state // unless it has a new definition, see below
				v.repeats = true
			} else if len(f) > 3 && f[3] == "changed" {
				v.why += ", and it has changed since its definition"
			}
			m.unkept[name] = v
		case "changing":
			left[name] = true
			stopped = append(stopped, k.interrupted(name, f[2])...)
		}
	}
	if !stale {
		k.finish(left)
		if !ended {
			stopped = append(stopped, k.unreached(left)...)
		}
		notes = append(notes, k.missing(left, stopped)...)
		for _, name := range again {
			if v := m.unkept[name]; v.state == nil || k.program.unit.Defines(name) {
				v.state = m.state(k.program.repeats[name])
				m.unkept[name] = v
			}
		}
	}
	return stale, notes
}

// unreached returns the variables of earlier cells that a program which was stopped
// would have defined again with :=, and has not left.
func (k *Carry) unreached(left map[string]bool) (names []string) {
	for _, def := range k.program.unit.Definitions {
		for _, name := range def.Names {
			if k.program.tracked[name] != "" && !left[name] && k.memory.kept[name] != nil && !slices.Contains(k.program.atStart, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// missing looks after the variables that a program which was stopped has had and not
// left: it died while it saved them, or before it came to them. stopped are others
// of which the notes, too, have to say that they are as they were.
func (k *Carry) missing(left map[string]bool, stopped []string) (notes []string) {
	for _, name := range k.program.atStart {
		if !left[name] {
			stopped = append(stopped, k.interrupted(name, "its cell was stopped before it was kept: it was changing, or too large to be kept in time")...)
		}
	}
	if len(stopped) > 0 {
		slices.Sort(stopped)
		is, it := "is as it was", "it"
		if len(stopped) > 1 {
			is, it = "are as they were", "they"
		}
		notes = append(notes, fmt.Sprintf("%s %s before cell %d: %s could not be kept when the cell was stopped", strings.Join(stopped, ", "), is, k.program.unit.ID, it))
	}
	return notes
}

// interrupted keeps what was there before the cell of a variable whose value was not
// kept when its program was stopped, and returns its name. There is no such value of
// one that the cell itself has defined: it cannot be used, and why says why.
func (k *Carry) interrupted(name, why string) (asBefore []string) {
	m, u := k.memory, k.program.unit
	if !u.Defines(name) {
		return []string{name}
	}
	delete(m.kept, name)
	m.unkept[name] = unkept{typ: k.program.tracked[name], why: why, cell: u.ID}
	return nil
}

// adopt takes over one variable: "kept" name file bytes preview types…
func (k *Carry) adopt(groups map[string]*keptGroup, f []string) {
	if len(f) < 5 {
		return
	}
	m := k.memory
	g := groups[f[2]]
	if g == nil {
		m.files++
		g = &keptGroup{file: filepath.Join(k.home, "value-"+strconv.Itoa(m.files))}
		for _, t := range f[5:] {
			g.dynamic = append(g.dynamic, typeText(t))
		}
		if os.Rename(f[2], g.file) != nil {
			return
		}
		groups[f[2]] = g
	}
	size, _ := strconv.ParseInt(f[3], 10, 64)
	v := &keptVar{name: f[1], typ: k.program.tracked[f[1]], cell: k.program.unit.ID, bytes: size, preview: f[4], group: g}
	g.vars = append(g.vars, v)
	m.kept[v.name] = v
	delete(m.unkept, v.name)
	if size <= summed {
		if data, err := os.ReadFile(g.file); err == nil {
			v.sum = sha256.Sum256(data)
		}
	}
}

// summed is the size up to which a value is compared with another by its bytes.
const summed = 1 << 20

// finish remembers what the cell defined with :=. left are the names of the
// values that the program left; it had come to those.
func (k *Carry) finish(left map[string]bool) {
	m, u := k.memory, k.program.unit
	for _, def := range u.Definitions {
		reached := func(name string) bool {
			_, tracked := k.program.tracked[name]
			return left[name] || !tracked
		}
		if !slices.ContainsFunc(def.Names, reached) {
			continue
		}
		if def.Decl != nil {
			m.addDecl(def.Decl)
		}
		for _, name := range def.Names {
			if def.Decl == nil {
				delete(m.decls, name)
			}
			if m.kept[name] != nil || def.Decl != nil {
				delete(m.lost, name)
			}
		}
	}
}

// drop forgets a value that is no longer one of its variable's type. m.mu is held.
func (m *Memory) drop(name, reason string) (notes []string) {
	k := m.kept[name]
	if k == nil {
		return nil
	}
	delete(m.kept, name)
	note := fmt.Sprintf("the value of %s from cell %d is gone: %s", name, k.cell, reason)
	switch d := m.decls[name]; {
	case d == nil:
		m.lost[name] = k.cell
	case d.Repeatable():
		note += fmt.Sprintf("; it begins again as cell %d, line %d, defines it", d.Cell, d.Line)
	default:
		m.unkept[name] = unkept{typ: k.typ, why: reason, cell: k.cell}
	}
	return []string{note}
}

// dropKept drops those of the loaded variables that a broken type may be due to.
func (m *Memory) dropKept(loads []loadedVar, reason string) (notes []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range loads {
		for _, v := range l.group.vars {
			if m.kept[v.name] == v {
				notes = append(notes, m.drop(v.name, reason)...)
			}
		}
	}
	return notes
}

// hold keeps the files that a program will read, and reports false if one of
// them has gone: replaced, or removed by somebody, and then the value is forgotten.
func (m *Memory) hold(loads []loadedVar) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	whole := true
	for _, l := range loads {
		if _, err := os.Stat(l.group.file); err == nil {
			continue
		}
		whole = false
		for _, v := range l.group.vars {
			if m.kept[v.name] == v {
				m.drop(v.name, "its file was removed")
			}
		}
	}
	if !whole {
		return false
	}
	m.holdFiles(filesOf(loads), 1)
	return true
}

// release lets go of what hold has kept.
func (m *Memory) release(loads []loadedVar) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holdFiles(filesOf(loads), -1)
}

// filesOf returns the file of each value.
func filesOf(loads []loadedVar) (files []string) {
	for _, l := range loads {
		files = append(files, l.group.file)
	}
	return files
}

// sweep removes the files that no variable and no running program needs any
// more. m.mu is held.
func (m *Memory) sweep(home string) {
	used := map[string]bool{}
	for file := range m.held {
		used[file] = true
	}
	for _, k := range m.kept {
		used[k.group.file] = true
	}
	names, _ := filepath.Glob(filepath.Join(home, "value-*"))
	for _, name := range names {
		if !used[name] {
			os.Remove(name)
		}
	}
}
