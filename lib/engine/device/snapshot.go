package device

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/engine/wire"
)

// moment is the named arrays of a space as they were together. Holding it costs
// nobody anything: arrays do not change, and a program that is given one of
// them to reuse its memory gets memory of its own instead for that once (see
// take). So training continues while a snapshot is written.
type moment struct {
	space   *space
	version int64
	about   metadata
	names   []string
	arrays  []*array
}

// freeze holds the arrays of a space. The caller holds w.mu, which freeze gives
// up while a program is just being given some of them, or a job is in the middle
// of a step: its place and its log are of the same moment.
func (w *Worker) freeze(s *space) *moment {
	s.freezes++
	for w.inCall(s) || s.working > 0 {
		w.unpinned.Wait()
	}
	s.freezes--
	w.unpinned.Broadcast()
	m := &moment{space: s, version: s.version, about: metadata{Space: s.name, Time: time.Now(), Generation: w.Generation, Jobs: s.jobMoments()}}
	for n, a := range w.names {
		switch {
		case n.space != s.name || s.copied(n.name):
		case a.err != nil || a.buf == 0:
			m.about.Missing = append(m.about.Missing, n.name)
		default:
			w.pin(a)
			m.names, m.arrays = append(m.names, n.name), append(m.arrays, a)
		}
	}
	return m
}

// inCall says whether arrays of a space are between two states: a program takes
// them and has not been accepted yet. The caller holds w.mu.
func (w *Worker) inCall(s *space) bool {
	for n, a := range w.names {
		if n.space == s.name && a.gone != "" {
			return true
		}
	}
	return false
}

// thaw lets the arrays go.
func (w *Worker) thaw(m *moment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range m.arrays {
		w.unpin(a)
	}
	m.arrays = nil
}

// noState says that a session keeps no snapshots.
func (w *Worker) noState() *wire.Error {
	e := wire.Errorf(wire.Unavailable, "this session keeps no snapshots: %s", w.stateOff)
	if w.stateNext == "" {
		return e.WithHint("gaiden session status tells more")
	}
	return e.WithHint("%s; then %%session stop, and the next cell's session keeps them. What this one holds ends with it: %%snapshot export FILE saves it", w.stateNext)
}

// snapshot saves the moment under a name, "" for an automatic one, and lets it
// go.
func (w *Worker) snapshot(m *moment, name string) (wire.SnapshotInfo, error) {
	a := m.space.archive
	if a == nil {
		w.thaw(m)
		return wire.SnapshotInfo{}, w.noState()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return w.snapshotLocked(m, name, 0)
}

// snapshotLocked is snapshot for a caller that holds the archive's mutex; the
// file of number spare is not given up to make room.
func (w *Worker) snapshotLocked(m *moment, name string, spare int) (wire.SnapshotInfo, error) {
	defer w.thaw(m)
	s, a := m.space, m.space.archive
	records, err := a.list()
	if err != nil {
		return wire.SnapshotInfo{}, err
	}
	w.mu.Lock()
	old := s.saved >= m.version && !a.removed
	w.mu.Unlock()
	if newest := a.newest(); old && name == "" && newest != nil {
		return a.info(newest), nil // nothing has changed since
	}
	if a.unheld { // before newer ones push it out
		if err := a.hold(nil); err != nil {
			return wire.SnapshotInfo{}, fmt.Errorf("the newest snapshot is not restored yet, and could not be marked to be kept: %w", err)
		}
		a.unheld = false
	}
	m.about.Name = name
	began := time.Now()
	r, err := w.record(a, m, spare)
	if err != nil {
		return wire.SnapshotInfo{}, err
	}
	a.removed = false
	for _, o := range records {
		if name != "" && o.about.Name == name && o.kind == saved { // the new one takes its place
			if err := a.become(o, part); err != nil {
				w.Logf("space %q: %v", s.name, err)
			}
		}
	}
	if err := a.tidy(spare); err != nil {
		w.Logf("space %q: %v", s.name, err)
	}
	w.mu.Lock()
	s.saved, s.kept, s.effort = max(s.saved, m.version), m.about.Time, time.Since(began)
	delete(w.troubles, s.name)
	w.mu.Unlock()
	info := a.info(r)
	info.Took = time.Since(began)
	return info, nil
}

// record makes the file of a moment.
func (w *Worker) record(a *archive, m *moment, spare int) (*record, error) {
	if err := wire.PrivateDir(a.dir); err != nil {
		return nil, err
	}
	r := &record{number: a.last + 1, kind: auto}
	if m.about.Name != "" {
		r.kind = saved
	}
	byName := map[string]*array{}
	h := &safetensors.Header{}
	reuse := w.reusable(a, m)
	for i, x := range m.arrays {
		n := m.names[i]
		if x.device != 0 {
			if m.about.Devices == nil {
				m.about.Devices = map[string]int{}
			}
			m.about.Devices[n] = x.device
		}
		t, isComplex, err := tensorOf(n, x.typ)
		if err != nil {
			return nil, err
		}
		if isComplex {
			m.about.Complex = append(m.about.Complex, n)
		}
		if p := reuse[x]; p != nil {
			m.about.Elsewhere = append(m.about.Elsewhere, tensorRef{n, p.file, p.tensor})
			continue
		}
		byName[n] = x
		h.Tensors = append(h.Tensors, t)
		r.size += x.bytes
	}
	r.about = m.about
	if err := a.makeRoom(r.size, r.kind == saved, spare, m.about.Elsewhere); err != nil {
		return nil, err
	}
	h.Metadata = map[string]string{aboutKey: string(wire.JSON(m.about))}
	a.last = r.number // a file of that number may be there even when save fails
	f, err := safetensors.CreatePrivate(a.path(r), h)
	if err == nil {
		err = w.save(f, byName)
	}
	if err != nil {
		return nil, err
	}
	r.setTensors(h)
	a.records = append(a.records, r)
	w.mu.Lock()
	for n, x := range byName {
		x.saved = &place{a, r.number, n}
	}
	w.mu.Unlock()
	return r, nil
}

// reusable are the arrays whose data a file has that is worth keeping: one that
// is a snapshot of its own, or of which half is still needed.
func (w *Worker) reusable(a *archive, m *moment) map[*array]*place {
	w.mu.Lock()
	defer w.mu.Unlock()
	live := map[int]int64{}
	for _, x := range m.arrays {
		if x.saved != nil && x.saved.archive == a {
			live[x.saved.file] += x.bytes
		}
	}
	l := map[*array]*place{}
	for _, x := range m.arrays {
		if p := x.saved; p != nil && p.archive == a {
			if r := a.record(p.file); r != nil && r.damaged == nil && r.unread == nil && (r.kind == saved || 2*live[p.file] >= r.size) {
				l[x] = p
			}
		}
	}
	return l
}

// run is a number of arrays that go through memory together.
type run struct {
	first int
	sizes []int64
	total int64
	buf   []byte
}

// stage is how much goes through memory at once, in bytes, where arrays are not
// larger: what stays in a processor's cache.
const stage = 4 << 20

// quick is how much is written without handing it to another thread, in bytes: it
// takes less time than that thread may wait for its turn behind a training.
const quick = 1 << 20

// politeness is the nice value of the thread that writes snapshots: a training
// that computes on the same processors goes first.
const politeness = 10

// write hands work to the thread that writes snapshots, in turn. There is one
// for the worker's life: Go would end a thread of its own with each snapshot,
// which is slower, and where gaiden is linked with cgo the end of such a thread
// takes the process with it (SIGSEGV in C).
func (w *Worker) write(work func()) {
	w.writer.Do(func() {
		w.writes = make(chan func())
		go func() {
			runtime.LockOSThread() // and never unlocked: its low priority is for this work alone
			unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), politeness)
			for f := range w.writes {
				f()
			}
		}()
	})
	w.writes <- work
}

// save writes arrays to a file. While one run of them is written the next one
// comes from the device.
func (w *Worker) save(f *safetensors.Writer, arrays map[string]*array) error {
	var runs []run
	largest := int64(1)
	for i, t := range f.Tensors {
		n := t.Size()
		if k := len(runs) - 1; k < 0 || runs[k].total+n > stage {
			runs = append(runs, run{first: i})
		}
		last := &runs[len(runs)-1]
		last.sizes, last.total = append(last.sizes, n), last.total+n
		largest = max(largest, last.total)
	}
	free := make(chan []byte, 2)
	for range min(2, len(runs)) {
		mem, err := mapped(largest)
		if err != nil {
			f.Abort()
			return err
		}
		defer unmap(mem)
		free <- mem
	}
	var failed error
	var writing sync.WaitGroup
	var fetched error
	for _, r := range runs {
		r.buf = <-free
		if fetched = w.fetch(r, f.Tensors, arrays); fetched != nil {
			break
		}
		writing.Add(1)
		work := func() {
			defer writing.Done()
			if failed == nil {
				failed = f.WriteRun(r.first, r.buf[:r.total], r.sizes)
			}
			free <- r.buf
		}
		if len(runs) == 1 && r.total <= quick {
			work()
		} else {
			w.write(work)
		}
	}
	writing.Wait()
	if err := errors.Join(fetched, failed); err != nil {
		f.Abort()
		return err
	}
	return f.Close()
}

// fetch brings a run of arrays from the device.
func (w *Worker) fetch(r run, tensors []safetensors.Tensor, arrays map[string]*array) error {
	var mu sync.Mutex
	var first error
	var all sync.WaitGroup
	at := int64(0)
	for i, n := range r.sizes {
		if n == 0 {
			continue
		}
		all.Add(1)
		done := func(err error) {
			if err != nil {
				mu.Lock()
				first = errors.Join(first, err)
				mu.Unlock()
			}
			all.Done()
		}
		a := arrays[tensors[r.first+i].Name]
		if err := w.client.DownloadAsync(a.buf, r.buf[at:at+n], done); err != nil {
			done(err)
		}
		at += n
	}
	all.Wait()
	return first
}
