package report

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"gaiden/lib/engine/files"
	"gaiden/lib/profile"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// Recording shows what the devices did during a recording: their utilization, and the
// time of the kernels by layer and phase, and by kernel.
func Recording(r *profile.Recording) Rich {
	span := r.Span()
	t := Table{Title: fmt.Sprintf("%s kernels in %s, device busy %s (%s)", units.Count(len(r.Kernels)), units.Seconds(span), units.Seconds(r.Busy()), units.Percent(r.Busy()/span)),
		Head: []string{"", "time", "share", "kernels", "each"}}
	if len(r.Kernels) == 0 {
		t.Title, t.Notes = "no kernels ran on a device", []string{"What ran before or after the cell is not recorded."}
	}
	section := func(title string, groups []profile.Group, most int) {
		t.Rows = append(t.Rows, []string{title})
		for i, g := range groups {
			if i == most {
				t.Rows = append(t.Rows, []string{fmt.Sprintf("  and %d more", len(groups)-i)})
				break
			}
			name := cmp.Or(g.Name, "(no label)")
			t.Rows = append(t.Rows, []string{"  " + name, units.Seconds(g.Seconds), units.Percent(g.Share), units.Count(g.Kernels), units.Seconds(g.Seconds / float64(g.Kernels))})
		}
	}
	if len(r.Kernels) > 0 {
		section("by layer and phase", r.By(func(k profile.Kernel) string { return k.Label }), 40)
		section("by kernel", r.By(func(k profile.Kernel) string {
			if k.Label == "" {
				return k.Name
			}
			return k.Label + ": " + k.Name
		}), 15)
	}
	for _, w := range r.Warnings {
		t.Notes = append(t.Notes, "warning: "+w.Error())
	}
	b := Bars{Title: "Device time"}
	for i, g := range r.By(func(k profile.Kernel) string { return k.Label }) {
		if i == 16 {
			break
		}
		b.Bars = append(b.Bars, Bar{Name: strings.TrimSpace(g.Name), Value: g.Seconds, Text: units.Seconds(g.Seconds) + " " + units.Percent(g.Share)})
	}
	return column{t, b}
}

// A Recorder is %%profile: it records the activity of the session's devices from
// [StartRecorder] to Stop.
type Recorder struct {
	path string
	s    *session.Session
	once sync.Once
}

// StartRecorder starts the profiler. The error is profile.ErrNoProfiler if the device
// has none. If path is not empty, Stop writes a trace for Perfetto there.
func StartRecorder(path string) (*Recorder, error) {
	if path != "" { // fail before the work, not after it
		if err := files.Check(path); err != nil {
			return nil, fmt.Errorf("report: trace: %w", err)
		}
	}
	s, err := session.Open()
	if err != nil {
		return nil, err
	}
	if err := profile.Begin(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Recorder{path: path, s: s}, nil
}

// Stop waits until the devices are idle, ends the recording and shows it. Later calls
// do nothing.
func (r *Recorder) Stop() error {
	var err error
	r.once.Do(func() {
		var found *profile.Recording
		err = session.WaitAll()
		found, stop := profile.End(r.s)
		if err = errors.Join(err, stop, r.s.Close()); err != nil || found == nil {
			return
		}
		Show(Recording(found))
		if r.path == "" {
			return
		}
		var f *files.File
		if f, err = files.Create(r.path); err != nil {
			return
		}
		defer f.Abort()
		if err = found.WriteTrace(f); err == nil {
			err = f.Commit()
		}
		if err == nil {
			fmt.Printf("trace written to %s: open it at ui.perfetto.dev\n", r.path)
		}
	})
	return err
}
