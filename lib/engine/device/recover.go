package device

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// recover brings the arrays of a space and its jobs back from its newest snapshot. A
// snapshot that is damaged, which its checksums prove, is passed over for an older
// one. Any other error leaves the space as it is and all files where they are: the
// next client, or a rollback, tries again.
func (w *Worker) recover(s *space) {
	a := s.archive
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := a.readSpace()
	var records []*record
	if err == nil {
		w.mu.Lock()
		if !s.quotaKnown {
			s.quota, s.quotaKnown = f.Quota, true
		}
		w.mu.Unlock()
		records, err = a.list()
	}
	if err != nil {
		w.notRestored(s, nil, err)
		return
	}
	var said []string
	for i := len(records) - 1; i >= 0; i-- {
		r := records[i]
		if r.kind == part || r.foreign != nil {
			continue
		}
		err := w.restore(s, r, f, said)
		if err == nil {
			return
		}
		if !a.blame(r, err) {
			w.notRestored(s, r, err)
			return
		}
		w.Logf("space %q: snapshot %d: %v", s.name, r.number, err)
		said = append(said, fmt.Sprintf("snapshot %d is damaged", r.number))
		if errors.Is(err, errGone) { // nothing that there is of it is known to be wrong
			if err := a.hold(r); err != nil {
				w.Logf("space %q: %v", s.name, err)
			}
		}
	}
	jobs, err := w.readJobs(s, nil)
	if err != nil {
		w.notRestored(s, nil, err)
		return
	}
	w.mu.Lock()
	s.unrestored = nil
	w.mu.Unlock()
	said = append(said, w.reviveJobs(s, jobs)...)
	w.report(s, nil, 0, f.Names, said)
}

// restore brings back the arrays of one snapshot and the jobs; said is what is wrong
// with newer ones. After an error nothing has changed.
func (w *Worker) restore(s *space, r *record, f spaceFile, said []string) error {
	names, arrays, err := w.load(s, r, "")
	if err != nil {
		return err
	}
	jobs, err := w.readJobs(s, r)
	if err != nil {
		w.drop(arrays)
		return err
	}
	w.mu.Lock()
	if s.version != 0 { // a client was faster: what it has bound is not replaced unasked
		w.mu.Unlock()
		w.drop(arrays)
		for _, j := range jobs {
			j.close()
		}
		return errors.New("notebook has new arrays")
	}
	w.adopt(s, names, arrays, "")
	s.archive.unheld = false
	s.undo = nil // nobody has done this
	s.kept = r.about.Time
	s.unrestored = nil
	if len(said) == 0 {
		s.saved = s.version
	}
	w.mu.Unlock()
	w.restored(s, r)
	said = append(said, w.reviveJobs(s, jobs)...)
	if f.Time.Before(r.about.Time) { // what it names besides was deleted before the snapshot
		f.Names = r.about.Missing
	}
	w.report(s, r, len(names), missing(f.Names, names), said)
	return nil
}

// restored notes that the arrays of a snapshot are all here. The caller holds the
// archive's mutex.
func (w *Worker) restored(s *space, r *record) {
	if r.kind != held {
		return
	}
	if err := s.archive.become(r, auto); err != nil { // it is kept longer than it need be
		w.Logf("space %q: %v", s.name, err)
	}
}

// notRestored keeps what is on disk of a space, and tells how to get it: snapshot r,
// nil where it is not known which there are. The caller holds the archive's mutex.
func (w *Worker) notRestored(s *space, r *record, why error) {
	s.archive.unheld = true
	if err := s.archive.hold(r); err == nil {
		s.archive.unheld = false
	} else {
		w.Logf("space %q: %v", s.name, err)
	}
	w.mu.Lock()
	s.unrestored = why
	w.mu.Unlock()
	if r == nil {
		w.tell(s, "nothing was restored: %v; all that is on disk is kept, and the next cell tries again; %s", why, s.archive.howRestored())
		return
	}
	what := ""
	if r.unread == nil {
		i := s.archive.info(r)
		what = fmt.Sprintf(" of %s (%d arrays, %s)", i.Time.Format(time.TimeOnly), i.Arrays, megabytes(i.Bytes))
	}
	w.tell(s, "snapshot %d%s was not restored: %v; it is kept on disk: the next cell tries again while the notebook has no new arrays, and %%rollback %d restores it at any time", r.number, what, why, r.number)
}

// howRestored says how a user gets the snapshot that could not be restored. The caller
// holds a.mu.
func (a *archive) howRestored() string {
	if a.awaited == 0 {
		return "%snapshot list shows the snapshots, and %rollback NUMBER restores one"
	}
	return fmt.Sprintf("%%rollback %d restores it", a.awaited)
}

// revisit is enter for a new client: it tries again what could not be restored, unless
// there are new arrays, which it would replace.
func (w *Worker) revisit(name string) *space {
	w.mu.Lock()
	s := w.spaceOf(name)
	retry := s.unrestored != nil
	w.mu.Unlock()
	w.enter(name)
	s.again.Lock()
	defer s.again.Unlock()
	w.mu.Lock()
	why, news := s.unrestored, s.news
	retry = retry && why != nil && s.version == 0
	w.mu.Unlock()
	if !retry {
		return s
	}
	w.recover(s)
	w.mu.Lock()
	note, back := s.note, s.unrestored == nil
	w.mu.Unlock()
	if back { // who came before has run without them, and may not have looked at its note
		w.tell(s, "%s; only now: a cell that ran before found nothing, because of %v", note, why)
		w.mu.Lock()
		s.news = news // if nobody was told why
		w.mu.Unlock()
	}
	return s
}

// report tells what came back of a space, and what did not.
func (w *Worker) report(s *space, r *record, back int, lost, said []string) {
	var l []string
	if back > 0 {
		what := fmt.Sprintf("%d arrays are back as they were", back)
		if back == 1 {
			what = "1 array is back as it was"
		}
		l = append(l, fmt.Sprintf("%s at %s (snapshot %d)", what, r.about.Time.Format(time.TimeOnly), r.number))
	}
	if len(lost) > 0 {
		w.mu.Lock()
		s.names++ // what is lost is told once: the list is written again
		w.mu.Unlock()
		l = append(l, "lost, because no snapshot has them: "+some(lost))
	}
	l = append(l, said...)
	for _, o := range s.archive.records {
		if o.kind == held && o != r && s.archive.flaw(o) == nil {
			l = append(l, fmt.Sprintf("snapshot %d of %s was never restored, and is kept: %%rollback %d restores it", o.number, o.about.Time.Format(time.DateTime), o.number))
		}
	}
	if len(l) > 0 || w.hasNote(s) {
		w.tell(s, "%s", strings.Join(l, "; "))
		if back > 0 && len(l) == 1 { // all is as it was
			w.news(s)
		}
	}
}

// hasNote says whether something was told of a space, which is no longer true.
func (w *Worker) hasNote(s *space) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.note != ""
}
