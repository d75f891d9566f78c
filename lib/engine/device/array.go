package device

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/typo"
	"gaiden/lib/engine/wire"
)

// array is a device buffer. All fields are protected by Worker.mu.
type array struct {
	buf       pjrt.Buffer
	typ       wire.Type
	bytes     int64
	device    int
	err       *wire.Error // the buffer was never made: why
	gone      string      // why there is not a buffer any more: donated, freed
	refs      int         // handles of connections, names and pins that hold it
	pins      int         // calls into PJRT that use buf at this moment
	name      name        // one of the names it is bound to, zero if none is known
	bound     int         // number of names
	dropped   bool        // it had names, and the last was taken away
	owner     *space      // whose client made it, nil if none
	saved     *place      // where its data is on disk, nil if it is not
	used      time.Time
	execution *execution // that makes it, nil when that has ended
	maker     *execution // whose outputs it is one of, nil if none or if it has had a name
	place     int        // among the inputs of the execution that is being checked

	prev, next *array // all arrays of the worker: a list costs a step less than a map
}

// name is a bound name: every array lives in the name space of a notebook.
type name struct{ space, name string }

func (n name) String() string { return n.name }

// unpin ends a use of a's buffer. The caller holds w.mu.
func (w *Worker) unpin(a *array) {
	a.pins--
	w.unpinned.Broadcast()
	if a.gone != "" { // a program that was to have its memory could not
		if a.pins == 0 && a.buf != 0 {
			w.charge(a, -a.bytes)
			w.freeBuffer(a.buf)
			a.buf = 0
		}
	}
	w.release(a)
}

// charge counts n more bytes for an array. The caller holds w.mu.
func (w *Worker) charge(a *array, n int64) {
	w.bytes += n
	if a.owner != nil {
		a.owner.bytes += n
	}
}

// pin keeps a's buffer alive during a call into PJRT. The caller holds w.mu.
func (w *Worker) pin(a *array) {
	a.pins++
	a.refs++
}

// release drops one reference; the last one frees the buffer. The caller holds
// w.mu.
func (w *Worker) release(a *array) {
	a.refs--
	if a.refs > 0 {
		return
	}
	if f := a.execution; f != nil && a.buf != 0 && !f.lives(a) { // else nobody would know when the program has ended
		a.refs, f.kept = 1, a
		return
	}
	a.prev.next, a.next.prev = a.next, a.prev
	w.count--
	if a.buf != 0 {
		w.charge(a, -a.bytes)
		w.freeBuffer(a.buf)
		a.buf = 0
	}
	a.gone = "freed"
	if a.dropped { // whoever held it last: the cell that deleted it, an undo, a snapshot, another cell
		w.tidy()
	}
	if f := a.maker; f != nil {
		f.alive--
		f.rest()
	}
}

// add makes an array known. The caller holds w.mu and owns the one reference.
func (w *Worker) add(a *array) {
	a.refs = 1
	a.prev, a.next = &w.all, w.all.next
	a.prev.next, a.next.prev = a, a
	w.count++
	if a.buf != 0 {
		w.charge(a, a.bytes)
	}
}

// check says why a cannot be used, or nil.
func (a *array) check() *wire.Error {
	switch {
	case a.err != nil:
		return a.err
	case a.gone != "" && a.name.name != "":
		return wire.Errorf(wire.Gone, "array %s was %s", a.name, a.gone).WithHint("look it up again by its name: a program has replaced it since")
	case a.gone != "":
		return wire.Errorf(wire.Gone, "%s array was %s", a.typ, a.gone).WithHint("use the array that the program returned in its place")
	}
	return nil
}

// bind gives a the name n and returns the array that had it, whose reference
// the caller inherits. The caller holds w.mu.
func (w *Worker) bind(n name, a *array) (old *array) {
	old = w.names[n]
	if old == a {
		return nil
	}
	if old == nil {
		w.spaceOf(n.space).names++
		w.file(n, 1)
	} else {
		old.bound--
	}
	w.names[n] = a
	a.refs++
	a.bound++
	a.dropped = false
	a.maker = nil
	if a.name.name == "" {
		a.name = n
	}
	return old
}

// folder is a name up to its first slash, "" if it has none: a net's.
func (n name) folder() name {
	at := strings.IndexByte(n.name, '/')
	return name{n.space, n.name[:at+1]}
}

// file counts a name that has come or gone in its folder. The caller holds w.mu.
func (w *Worker) file(n name, more int) {
	f := n.folder()
	if w.folders[f] += more; w.folders[f] == 0 {
		delete(w.folders, f)
	}
}

// under is how many names begin with a prefix. A folder's are not looked for among
// all that there are: each training asks. The caller holds w.mu.
func (w *Worker) under(prefix name) int {
	if prefix.name != "" && prefix.folder() == prefix {
		return w.folders[prefix]
	}
	count := 0
	for n := range w.names {
		if n.space == prefix.space && strings.HasPrefix(n.name, prefix.name) {
			count++
		}
	}
	return count
}

// lookup finds a named array. The caller holds w.mu.
func (w *Worker) lookup(n name) (*array, *wire.Error) {
	if a := w.names[n]; a != nil {
		return a, nil
	}
	e := wire.Errorf(wire.NotFound, "no array %q in notebook %q", n.name, n.space)
	var all []string
	for k := range w.names {
		if k.space == n.space {
			all = append(all, k.name)
		}
	}
	if near := typo.Within(len(n.name)/3+1, n.name, all); near != "" {
		e.Text += fmt.Sprintf("; did you mean %q?", near) // in the text: what a cell prints or panics with has no hint
		return nil, e.WithHint("%%arrays lists what there is")
	}
	for k := range w.names {
		if k.name == n.name {
			return nil, e.WithHint("notebook %q has an array of that name", k.space)
		}
	}
	return nil, e.WithHint("%%arrays lists what there is")
}

// info describes a bound array. The caller holds w.mu.
func (w *Worker) info(n name, a *array) wire.ArrayInfo {
	i := wire.ArrayInfo{Name: n.name, Space: n.space, Type: a.typ, Bytes: a.bytes, Device: a.device, Used: a.used, Generation: w.Generation, Copy: w.spaceOf(n.space).copied(n.name)}
	if a.owner != nil {
		i.Owner = a.owner.name
	}
	if a.saved != nil {
		i.Saved = a.saved.file
	}
	return i
}

// list returns the arrays of a name space whose name has the prefix, by name;
// space "*" is all of them. The caller holds w.mu.
func (w *Worker) list(space, prefix string) []wire.ArrayInfo {
	var l []wire.ArrayInfo
	for n, a := range w.names {
		if (n.space == space || space == "*") && strings.HasPrefix(n.name, prefix) {
			l = append(l, w.info(n, a))
		}
	}
	sort.Slice(l, func(i, j int) bool {
		return l[i].Space < l[j].Space || l[i].Space == l[j].Space && l[i].Name < l[j].Name
	})
	return l
}

// outOfMemory makes e say what fills the device, or, where its quota is what has
// no room, the client's space. What could not be made fills nothing. The caller
// holds w.mu.
func (c *conn) outOfMemory(e *wire.Error, quota bool) {
	var l []*array
	held := int64(0)
	for a := c.w.all.next; a != &c.w.all; a = a.next {
		if a.buf != 0 && a.err == nil && (!quota || a.owner == c.space) {
			l = append(l, a)
			held += a.bytes
		}
	}
	sort.Slice(l, func(i, j int) bool { return l[i].bytes > l[j].bytes })
	var b strings.Builder
	fmt.Fprintf(&b, "arrays hold %s", megabytes(held))
	for i, a := range l[:min(len(l), 5)] {
		n := "unnamed"
		if a.name.name != "" {
			n = wire.ShownBriefly(a.name.name, 64)
			if a.bound == 0 { // %rollback or a cell still has it
				n = "older " + n
			}
			if a.name.space != c.hello.Space {
				n += fmt.Sprintf(" of notebook %q", a.name.space)
			}
		}
		fmt.Fprintf(&b, "%s %s %s %s", []string{"; largest:", ","}[min(i, 1)], n, a.typ, megabytes(a.bytes))
	}
	b.WriteString("; delete what is not needed (%arrays lists all) or use a smaller batch")
	if quota {
		b.WriteString("; %device quota SIZE sets another bound")
	} else if n := c.w.unclaimed(); n > 0 {
		fmt.Fprintf(&b, "; %s more are in use than arrays hold: gaiden session stop gives them back, and the next cell has your arrays", megabytes(n))
	} else if n := c.w.otherProcesses(); n > hungry {
		fmt.Fprintf(&b, "; other programs have %s that could be had: nvidia-smi lists them", megabytes(n))
	}
	e.Next = b.String()
}

// megabytes writes a size for a message, of which little never rounds to nothing; from 10 GB
// on in gigabytes.
func megabytes(n int64) string {
	switch v := float64(n); {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 100_000:
		return fmt.Sprintf("%.3f MB", v/1e6)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", v/1e6)
	default:
		return fmt.Sprintf("%.1f GB", v/1e9)
	}
}
