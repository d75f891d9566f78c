package device

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"gaiden/lib/engine/files"
	"gaiden/lib/engine/safetensors"
	"gaiden/lib/engine/wire"
)

func (w *Worker) snapshots(s *space) (*wire.AnswerBody, error) {
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	l, err := s.archive.list()
	if err != nil {
		return nil, err
	}
	ans := &wire.AnswerBody{}
	for _, r := range l {
		if r.kind != part {
			ans.Snapshots = append(ans.Snapshots, s.archive.info(r))
		}
	}
	return ans, nil
}

// waiting are those of some jobs that wait for a snapshot.
func (w *Worker) waiting(s *space, r *record, jobs []*revival) []*revival {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(jobs, func(v *revival) bool {
		waits := v.damaged == nil && s.waiting[v.file.Info.Name].from == r.number
		if !waits {
			v.close()
		}
		return !waits
	})
}

// rollback gives the names of a space what they stood for at a snapshot; what
// was bound since is taken away. What there was is saved before, so that a
// rollback can be taken back; where it cannot be, by a full disk say, it is kept to
// be undone, if there is memory for that.
func (c *conn) rollback(s *space, word, prefix string) (*wire.AnswerBody, error) {
	w := c.w
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	r, why := s.archive.find(word)
	if why != nil {
		return nil, why
	}
	if why := s.refuseBusy(w); why != nil {
		return nil, why
	}
	unsaved, err := c.saveFirst(s, r, prefix)
	if err != nil {
		return nil, err
	}
	names, arrays, err := w.load(s, r, prefix)
	if err != nil {
		return nil, w.asDamaged(s, r, err)
	}
	if prefix != "" && len(names) == 0 {
		return nil, wire.Errorf(wire.NotFound, "snapshot %d has no array that begins with %q", r.number, prefix)
	}
	pending := prefix == "" && w.awaits(s, r)
	var jobs []*revival
	if prefix == "" {
		if jobs, err = w.readJobs(s, r); err != nil {
			w.drop(arrays)
			return nil, err
		}
		if !pending {
			jobs = w.waiting(s, r, jobs)
		}
	}
	w.mu.Lock()
	if why := c.mayChangeAll(s, prefix); why != nil { // since we looked
		w.mu.Unlock()
		w.drop(arrays)
		for _, v := range jobs {
			v.close()
		}
		return nil, why
	}
	w.adopt(s, names, arrays, prefix)
	if pending {
		s.unrestored = nil
	}
	w.mu.Unlock()
	lost := w.reviveJobs(s, jobs)
	if pending {
		s.archive.unheld = false
		w.report(s, r, len(names), nil, lost)
	}
	if prefix == "" {
		w.restored(s, r)
	}
	if unsaved == nil { // else a crash would restore what there was before
		w.mu.Lock()
		m := w.freeze(s)
		w.mu.Unlock()
		if _, err := w.snapshotLocked(m, "", r.number); err != nil {
			w.trouble(s, err)
		}
	}
	info := s.archive.info(r)
	info.Arrays = len(names)
	if unsaved != nil {
		info.Unsaved = unsaved.Error()
	}
	return &wire.AnswerBody{Snapshots: []wire.SnapshotInfo{info}, Count: len(names)}, nil
}

// awaits says whether it is this snapshot that could not be restored when the space was opened.
func (w *Worker) awaits(s *space, r *record) bool {
	w.mu.Lock()
	pending := s.unrestored != nil
	w.mu.Unlock()
	if pending && s.archive.awaited == 0 {
		if err := s.archive.hold(nil); err != nil {
			w.Logf("space %q: %v", s.name, err)
		}
	}
	return pending && r.number == s.archive.awaited
}

// saveFirst saves what there is in a space before a rollback to r. Where it cannot be saved, it
// can be undone, or the rollback is refused.
func (c *conn) saveFirst(s *space, r *record, prefix string) (unsaved, refused error) {
	w := c.w
	w.mu.Lock()
	if why := c.mayChangeAll(s, prefix); why != nil {
		w.mu.Unlock()
		return nil, why
	}
	m := w.freeze(s)
	w.mu.Unlock()
	_, unsaved = w.snapshotLocked(m, "", r.number)
	if unsaved != nil {
		w.trouble(s, unsaved)
		if !w.undoes(s, prefix) {
			return nil, wire.Errorf(wire.Unavailable, "what there is could not be saved first, and takes too much memory to be kept: %v", unsaved).
				WithHint("nothing was changed: make room on the disk, or delete arrays that are not needed: %%arrays lists them")
		}
	}
	return unsaved, nil
}

// asDamaged says which snapshot could not be read, and remembers it. Arrays whose
// data is in its files are no longer taken for saved: the next snapshot writes
// them again.
func (w *Worker) asDamaged(s *space, r *record, err error) error {
	if !s.archive.blame(r, err) {
		return err
	}
	files := map[int]bool{r.number: true}
	for _, e := range r.about.Elsewhere {
		files[e.File] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.saved = unsaved
	for x := w.all.next; x != &w.all; x = x.next {
		if x.saved != nil && x.saved.archive == s.archive && files[x.saved.file] {
			x.saved = nil
		}
	}
	return wire.Errorf(wire.Invalid, "snapshot %d: %v", r.number, err).WithHint("nothing was changed; %%snapshot list shows the others")
}

// discard deletes snapshots.
func (w *Worker) discard(s *space, words []string) (*wire.AnswerBody, error) {
	a := s.archive
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(words) == 0 {
		return nil, wire.Errorf(wire.Invalid, "no snapshot was named")
	}
	var l []*record
	for _, word := range words {
		r, why := a.find(word)
		if r == nil {
			r = a.flawed(word)
		}
		if r == nil {
			return nil, why
		}
		l = append(l, r)
	}
	newest := a.newest()
	for _, r := range l {
		if err := a.become(r, part); err != nil {
			return nil, err
		}
	}
	if a.newest() != newest { // what it had is on disk no more
		w.mu.Lock()
		s.saved = unsaved
		w.mu.Unlock()
	}
	return &wire.AnswerBody{Count: len(l)}, a.tidy(0)
}

// flawed is the snapshot of that number if it cannot be restored: it can be deleted.
func (a *archive) flawed(word string) *record {
	for _, r := range a.records {
		if r.kind != part && a.flaw(r) != nil && fmt.Sprint(r.number) == word {
			return r
		}
	}
	return nil
}

// export writes arrays to a file of the user's: those of a snapshot, or those
// of now.
func (w *Worker) export(s *space, a wire.AskBody) (*wire.AnswerBody, error) {
	if !filepath.IsAbs(a.Path) {
		return nil, wire.Errorf(wire.Invalid, "export to %q: want an absolute path", a.Path)
	}
	h := &safetensors.Header{Metadata: map[string]string{}}
	maps.Copy(h.Metadata, a.Metadata)
	if len(a.Names) > 0 {
		if s.archive == nil {
			return nil, w.noState()
		}
		return w.exportSnapshot(s, a, h)
	}
	w.mu.Lock()
	m := w.freeze(s)
	w.mu.Unlock()
	defer w.thaw(m)
	about := m.about
	about.Jobs, about.Missing = nil, nil
	arrays := map[string]*array{}
	for i, n := range m.names {
		if !strings.HasPrefix(n, a.Prefix) {
			continue
		}
		t, isComplex, err := tensorOf(n, m.arrays[i].typ)
		if err != nil {
			return nil, err
		}
		if isComplex {
			about.Complex = append(about.Complex, n)
		}
		arrays[n] = m.arrays[i]
		h.Tensors = append(h.Tensors, t)
	}
	switch {
	case len(m.names) == 0:
		return nil, wire.Errorf(wire.NotFound, "notebook %q has no arrays", s.name).WithHint("export takes a snapshot's name, too: %%snapshot list")
	case len(arrays) == 0:
		return nil, wire.Errorf(wire.NotFound, "notebook %q has no array that begins with %q", s.name, a.Prefix).WithHint("%%arrays lists what there is")
	}
	h.Metadata[aboutKey] = string(wire.JSON(about))
	f, err := safetensors.Create(a.Path, h)
	if err != nil {
		return nil, badTarget(err)
	}
	return &wire.AnswerBody{Count: len(arrays)}, w.save(f, arrays)
}

// exportSnapshot copies a snapshot's arrays, which may be in several files, to
// one.
func (w *Worker) exportSnapshot(s *space, a wire.AskBody, h *safetensors.Header) (*wire.AnswerBody, error) {
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	r, why := s.archive.find(a.Names[0])
	if why != nil {
		return nil, why
	}
	l, closeAll, err := s.archive.sources(r, a.Prefix, nil)
	defer closeAll()
	if err != nil {
		return nil, w.asDamaged(s, r, err)
	}
	about := metadata{Space: r.about.Space, Name: r.about.Name, Time: r.about.Time, Generation: r.about.Generation, Complex: r.about.Complex}
	h.Metadata[aboutKey] = string(wire.JSON(about))
	from := map[string]source{}
	for _, src := range l {
		t := src.file.Tensors[src.tensor]
		t.Name = src.name
		from[src.name] = src
		h.Tensors = append(h.Tensors, safetensors.Tensor{Name: src.name, DType: t.DType, Shape: t.Shape})
	}
	f, err := safetensors.Create(a.Path, h)
	if err != nil {
		return nil, badTarget(err)
	}
	for i, t := range f.Tensors {
		b := make([]byte, t.Size())
		src := from[t.Name]
		if err = src.read(b); err == nil {
			err = f.Write(i, b)
		}
		if err != nil {
			f.Abort()
			return nil, w.asDamaged(s, r, err)
		}
	}
	return &wire.AnswerBody{Count: len(l)}, f.Close()
}

// importFile binds the arrays of a file, all or none.
func (c *conn) importFile(s *space, a wire.AskBody) (*wire.AnswerBody, error) {
	w := c.w
	if !filepath.IsAbs(a.Path) {
		return nil, wire.Errorf(wire.Invalid, "import of %q: want an absolute path", a.Path)
	}
	f, err := safetensors.Open(a.Path)
	if err != nil {
		return nil, badFile(err)
	}
	defer f.Close()
	isComplex, err := complexOf(f)
	if err != nil {
		return nil, badFile(err)
	}
	var want []source
	var names []name
	for i, t := range f.Tensors {
		n := a.Prefix + t.Name
		names = append(names, name{s.name, n})
		if why := wire.CheckName(n); why != nil {
			return nil, why
		}
		src := source{name: n, file: f, tensor: i}
		if src.typ, err = typeOf(t, isComplex[t.Name]); err != nil {
			return nil, err
		}
		want = append(want, src)
	}
	arrays, err := w.bring(s, want)
	if err != nil {
		return nil, badFile(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range names {
		if why := c.mayChange(s, n.name); why != nil {
			for _, x := range arrays {
				w.release(x)
			}
			return nil, why
		}
	}
	ans := &wire.AnswerBody{}
	for i, x := range arrays {
		n := names[i]
		w.preserve(n)
		if old := w.bind(n, x); old != nil {
			w.release(old)
		}
		w.release(x) // the name holds it now
		ans.Arrays = append(ans.Arrays, w.info(n, x))
	}
	s.touch(time.Now())
	sort.Slice(ans.Arrays, func(i, j int) bool { return ans.Arrays[i].Name < ans.Arrays[j].Name })
	return ans, nil
}

// badFile is the error of an import.
func badFile(err error) error {
	if e, is := errors.AsType[*wire.Error](err); is {
		return e
	}
	return wire.Errorf(wire.Invalid, "import: %v", err).WithHint("no array was changed")
}

// badTarget is the error of an export to what is no place for a file.
func badTarget(err error) error {
	if odd, is := errors.AsType[*files.NotRegularError](err); is {
		return wire.Errorf(wire.Invalid, "export: %v", odd).WithHint("%s", odd.Hint())
	}
	return err
}
