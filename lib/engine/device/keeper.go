package device

import (
	"errors"
	"sort"
	"strings"
	"time"
	"unicode"

	"gaiden/lib/engine/wire"
)

// When automatic snapshots are made.
const (
	keeperTick  = 500 * time.Millisecond
	idleDelay   = 2 * time.Second  // without a change of names
	patience    = time.Minute      // and if names keep changing, so long after the first change that is not saved
	maxOverhead = 100              // but so rarely that they take at most one part in so many of the time
	busyWeight  = 20               // the same in a pause between two changes, or at the end of an epoch
	retryAfter  = 10 * time.Second // when one has failed
	missedAfter = 10               // ticks between two looks whether the files are still there
)

// keepState makes automatic snapshots until the worker ends.
func (w *Worker) keepState() {
	tick := time.NewTicker(keeperTick)
	defer tick.Stop()
	known := map[*space]int64{}
	for turn := 1; ; turn++ {
		select {
		case <-w.stopped:
			return
		case now := <-tick.C:
			for _, s := range w.allSpaces() {
				w.remember(s, known)
				if turn%missedAfter == 0 {
					w.miss(s)
				}
				if w.due(s, now) {
					w.autosave(s)
				}
			}
		}
	}
}

func (w *Worker) allSpaces() []*space {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l []*space
	for _, s := range w.spaces {
		if s.archive != nil {
			l = append(l, s)
		}
	}
	sort.Slice(l, func(i, j int) bool { return l[i].name < l[j].name })
	return l
}

// due says whether a space wants an automatic snapshot.
func (w *Worker) due(s *space, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.version == s.saved || now.Before(s.retry) {
		return false
	}
	return now.Sub(s.changed) >= idleDelay && (s.affords() || !w.worksFor(s)) || now.Sub(s.since) >= max(patience, maxOverhead*s.effort)
}

// affords says whether the newest snapshot of a space is long enough ago, for what
// it took, to make another while there is work to do: one of DeepPose's 1 GB takes
// seconds, in which its steps on the same 2 cores take a fifth longer. The caller
// holds w.mu.
func (s *space) affords() bool { return s.effort == 0 || time.Since(s.kept) >= busyWeight*s.effort }

// worksFor says whether a device is at work for a client of a space. The caller holds
// w.mu.
func (w *Worker) worksFor(s *space) bool {
	for c := range w.conns {
		if c.space == s && (c.inflight > 0 || c.launching != nil) {
			return true
		}
	}
	return false
}

// autosave makes an automatic snapshot. What goes wrong is kept for status.
func (w *Worker) autosave(s *space) {
	w.mu.Lock()
	m := w.freeze(s)
	w.mu.Unlock()
	_, err := w.snapshot(m, "")
	w.trouble(s, err)
}

// trouble notes why the newest changes of a space are not on disk, nil when they
// are.
func (w *Worker) trouble(s *space, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
		if e, is := errors.AsType[*wire.Error](err); is && e.Next != "" {
			text += "; " + e.Next
		}
		s.retry = time.Now().Add(retryAfter)
	}
	if text != "" && text != w.troubles[s.name] {
		w.Logf("space %q is not saved: %v", s.name, err)
	}
	delete(w.troubles, s.name)
	if text != "" {
		w.troubles[s.name] = text
	}
}

// unsaved says why the arrays of a space are in no snapshot that is up to date, "" if they
// are, or if it is only a matter of time.
func (w *Worker) unsaved(s *space) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.State != "" && w.stateOff != "" && s.bytes > 0 {
		return w.stateOff
	}
	return w.troubles[s.name]
}

// miss notes that a space is not saved any more where somebody has removed files of its
// archive.
func (w *Worker) miss(s *space) {
	a := s.archive
	if !a.mu.TryLock() { // it is being written
		return
	}
	defer a.mu.Unlock()
	if !a.known || !a.removed && !a.lacks() {
		return
	}
	if _, err := a.list(); err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.saved != unsaved {
		w.Logf("space %q: its snapshots have been removed: they are written again", s.name)
		s.saved = unsaved
	}
}

// saveAll saves what is not on disk yet, because the session ends.
func (w *Worker) saveAll() {
	for _, s := range w.allSpaces() {
		w.miss(s)
		w.mu.Lock()
		dirty := s.version != s.saved
		w.mu.Unlock()
		if dirty {
			w.autosave(s)
		}
		w.remember(s, nil)
	}
}

// remember writes down which names a space has, when they are not those that
// known says; after a crash the file tells what is lost.
func (w *Worker) remember(s *space, known map[*space]int64) {
	w.mu.Lock()
	if s.names == known[s] {
		w.mu.Unlock()
		return
	}
	n, quotaKnown := s.names, s.quotaKnown
	f := spaceFile{Space: s.name, Quota: s.quota, Time: time.Now()}
	for n := range w.names {
		if n.space == s.name && !s.copied(n.name) {
			f.Names = append(f.Names, n.name)
		}
	}
	w.mu.Unlock()
	if !quotaKnown { // space.json could not be read yet: its quota stays
		old, err := s.archive.readSpace()
		if err != nil {
			w.trouble(s, err)
			return
		}
		f.Quota = old.Quota
	}
	sort.Strings(f.Names)
	if err := s.archive.writeSpace(wire.JSON(f)); err != nil {
		w.trouble(s, err)
		return
	}
	if known != nil {
		known[s] = n
	}
}

// askSnapshot answers the requests about snapshots in their turn; the work of a
// snapshot itself is done aside.
func (c *conn) askSnapshot(id uint32, a wire.AskBody) error {
	w := c.w
	s := w.enter(a.Space)
	if s.archive == nil && a.Verb != wire.Export && a.Verb != wire.Import {
		return c.fail(id, w.noState())
	}
	if a.Verb == wire.Snapshot || a.Verb == wire.Save {
		title := ""
		if a.Verb == wire.Snapshot && len(a.Names) > 0 {
			title = a.Names[0]
			if why := checkTitle(title); why != nil {
				return c.fail(id, why)
			}
		}
		w.mu.Lock()
		if a.Verb == wire.Save && !s.affords() {
			w.mu.Unlock()
			return c.answer(id, &wire.AnswerBody{})
		}
		m := w.freeze(s)
		w.mu.Unlock()
		w.background.Go(func() {
			info, err := w.snapshot(m, title)
			w.trouble(s, err)
			if err != nil {
				c.fail(id, diskError(err))
				return
			}
			c.answer(id, &wire.AnswerBody{Snapshots: []wire.SnapshotInfo{info}})
		})
		return nil
	}
	var ans *wire.AnswerBody
	var err error
	switch a.Verb {
	case wire.Snapshots:
		ans, err = w.snapshots(s)
	case wire.Rollback:
		ans, err = c.rollback(s, first(a.Names), a.Prefix)
	case wire.Discard:
		ans, err = w.discard(s, a.Names)
	case wire.Diff:
		ans, err = w.diff(s, a.Names, a.Prefix)
	case wire.Export:
		ans, err = w.export(s, a)
	case wire.Import:
		ans, err = c.importFile(s, a)
	}
	if err != nil {
		return c.fail(id, diskError(err))
	}
	return c.answer(id, ans)
}

func first(l []string) string {
	if len(l) > 0 {
		return l[0]
	}
	return ""
}

// checkTitle refuses names of snapshots that could not be typed again, and those
// that are slips: %snapshot ? asks for help.
func checkTitle(s string) *wire.Error {
	const hint = "give it a name with a letter in it that does not begin with -, such as before-pruning"
	if why := wire.CheckName(s); why != nil {
		why.Text = strings.Replace(why.Text, "array name", "snapshot name", 1)
		return why.WithHint(hint)
	}
	switch {
	case strings.Trim(s, "0123456789") == "":
		return wire.Errorf(wire.Invalid, "snapshot name %q is a number: numbers are those of automatic snapshots", s).WithHint(hint)
	case s == newestWord:
		return wire.Errorf(wire.Invalid, "snapshot name %q stands for the newest snapshot", s).WithHint(hint)
	case s[0] == '-':
		return wire.Errorf(wire.Invalid, "snapshot name %q begins with -", s).WithHint(hint)
	case strings.IndexFunc(s, unicode.IsLetter) < 0:
		return wire.Errorf(wire.Invalid, "snapshot name %q has no letter", s).WithHint(hint)
	}
	return nil
}

// diskError makes an error of files cross the socket.
func diskError(err error) *wire.Error {
	if e, is := errors.AsType[*wire.Error](err); is {
		return e
	}
	return wire.Errorf(wire.Unavailable, "%v", err).WithHint("what was on disk before is still there")
}
