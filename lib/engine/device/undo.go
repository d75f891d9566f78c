package device

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/wire"
)

// undo is what a cell has replaced: for each name that it has changed, the array
// that had it before. That array is pinned, so a program that is given it writes
// its result elsewhere: keeping it costs no copy, and only the first step of a
// cell does without the memory of its input. What it takes is bounded; a cell
// that replaces more cannot be undone, and neither can one whose memory was
// needed for something else.
type undo struct {
	label string // of the cell
	names map[string]*array
	bytes int64
	off   string // why it cannot be undone, "" if it can
}

// undoPart is the part of a device's memory that all undos together may take,
// and undoBytes what they may where the plugin does not tell it.
const (
	undoPart  = 4
	undoBytes = 4 << 30
)

// mark begins a new cell: what is changed from now on is what it has changed. The
// last undo lives until then, for a cell that changes nothing has none. The
// caller holds w.mu.
func (w *Worker) mark(s *space, label string) {
	s.cell, s.marked = label, true
}

// preserve keeps what a name of a space stands for, before a client changes it
// for the first time in a cell. The caller holds w.mu.
func (w *Worker) preserve(n name) {
	s := w.spaceOf(n.space)
	if s.undo == nil || s.marked {
		w.forgetUndo(s, "")
		s.undo, s.marked = &undo{label: s.cell, names: map[string]*array{}}, false
	}
	u := s.undo
	if _, known := u.names[n.name]; known || u.off != "" {
		return
	}
	old := w.names[n]
	u.names[n.name] = old
	if old == nil {
		return
	}
	w.pin(old)
	u.bytes += old.bytes
	if w.undoing += old.bytes; w.undoing > w.undoLimit() {
		w.forgetUndo(s, "its arrays take more than "+megabytes(w.undoLimit())+", the bound for what is kept to be undone")
	}
}

// alone is what the arrays take that have no name any more. The caller holds w.mu.
func (u *undo) alone() int64 {
	n, seen := int64(0), map[*array]bool{}
	for _, a := range u.names {
		if a != nil && a.bound == 0 && !seen[a] {
			seen[a], n = true, n+a.bytes
		}
	}
	return n
}

// undoLimit bounds the memory of all undos.
func (w *Worker) undoLimit() int64 {
	if w.deviceLimit > 0 {
		return w.deviceLimit / undoPart
	}
	return undoBytes
}

// undoes says whether all that a space has under a prefix can be kept to be undone.
func (w *Worker) undoes(s *space, prefix string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	more, u := int64(0), s.undo
	switch {
	case u == nil:
	case s.marked:
		more -= u.bytes // the last cell's goes
	case u.off != "":
		return false
	}
	for n, a := range w.names {
		if n.space != s.name || !strings.HasPrefix(n.name, prefix) {
			continue
		}
		known := false
		if u != nil && !s.marked {
			_, known = u.names[n.name]
		}
		if !known {
			more += a.bytes
		}
	}
	return w.undoing+more <= w.undoLimit()
}

// forgetUndo gives the memory of a space's undo back. The caller holds w.mu.
func (w *Worker) forgetUndo(s *space, why string) {
	u := s.undo
	if u == nil || u.off != "" {
		return
	}
	w.letGo(u)
	u.names, u.bytes, u.off = nil, 0, why
}

// letGo unpins what a space's undo keeps. The caller holds w.mu.
func (w *Worker) letGo(u *undo) {
	for _, a := range u.names {
		if a != nil {
			w.unpin(a)
		}
	}
	w.undoing -= u.bytes
}

// spare gives the memory of all undos back, because it is needed, and says
// whether there was some. The caller holds w.mu.
func (w *Worker) spare() bool {
	if w.undoing == 0 {
		return false
	}
	for _, s := range w.spaces {
		w.forgetUndo(s, "the device's memory was needed")
	}
	return true
}

// undoCell gives the names of a space back what they stood for before the last
// cell that has changed some. It can be undone like a cell.
func (c *conn) undoCell(s *space) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	if why := s.refuseBusy(w); why != nil {
		return nil, why
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.inCall(s) {
		w.unpinned.Wait()
	}
	u := s.undo
	switch {
	case u == nil || u.off == "" && len(u.names) == 0:
		return nil, wire.Errorf(wire.NotFound, "no cell of notebook %q has changed arrays", s.name).WithHint("%%snapshot list shows the snapshots")
	case u.off != "":
		return nil, wire.Errorf(wire.Gone, "the last cell that has changed arrays cannot be undone: %s", u.off).WithHint("%%rollback with a snapshot's name or number does what is possible; %%snapshot list shows them")
	}
	for n := range u.names {
		if why := c.mayChange(s, n); why != nil {
			return nil, why
		}
	}
	s.undo = nil
	w.mark(s, "undo of "+u.label)
	ans := &wire.AnswerBody{}
	for _, word := range slices.Sorted(maps.Keys(u.names)) {
		n, old := name{s.name, word}, u.names[word]
		if w.names[n] == old {
			continue
		}
		w.preserve(n)
		ans.Count++
		if old == nil {
			w.unbind(n)
			continue
		}
		x := old
		if old.gone != "" { // its handles were given away, its memory was not
			x = &array{buf: old.buf, typ: old.typ, bytes: old.bytes, device: old.device, owner: old.owner, used: old.used, saved: old.saved}
			w.charge(old, -old.bytes)
			old.buf = 0
			w.add(x)
		}
		if was := w.bind(n, x); was != nil {
			w.release(was)
		}
		if x != old {
			w.release(x) // the name holds it now
		}
		ans.Arrays = append(ans.Arrays, w.info(n, x))
	}
	w.letGo(u)
	s.touch(time.Now())
	return ans, nil
}
