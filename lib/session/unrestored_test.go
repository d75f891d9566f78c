package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// starve leaves a process so few file descriptors that it can accept one connection and
// open spare files more, until the returned function is called.
func starve(t *testing.T, pid, spare int) (feed func()) {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, e := range open {
		used[e.Name()] = true
	}
	limit := 0
	for left := 1 + spare; left > 0; limit++ {
		if !used[fmt.Sprint(limit)] {
			left--
		}
	}
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(limit), Max: 1 << 16}, &old); err != nil {
		t.Skipf("needs to limit the worker's files by prlimit: %v; run it as root, or where the worker is of the same user", err)
	}
	return func() { unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil) }
}

// files are the names of the session's snapshot files.
func (p *process) files() (l []string) {
	files, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/*.safetensors")
	for _, f := range files {
		l = append(l, filepath.Base(f))
	}
	return l
}

// TestUnrestored holds that a snapshot that cannot be restored for a reason that may
// pass is not replaced by an older one, is kept however many are made after it, and
// comes back with the next client or on request.
func TestUnrestored(t *testing.T) {
	// The second snapshot has w, and needs the first one's file for the data.
	const whole = "data[0 0 0 7] w[2]"
	faults := []struct {
		name string
		make func(p *process, before *Session) (end func(s *Session))
		why  string
	}{
		{"quota", nil, "quota"},
		{"no descriptor", func(p *process, before *Session) func(*Session) {
			feed := starve(p.t, p.worker(before), 0)
			return func(*Session) { feed() }
		}, "too many open files"},
		{"one descriptor", func(p *process, before *Session) func(*Session) {
			feed := starve(p.t, p.worker(before), 1)
			return func(*Session) { feed() }
		}, "too many open files"},
	}
	for _, f := range faults {
		for _, way := range []string{"next client", "new arrays first", "next session"} {
			t.Run(f.name+", "+way, func(t *testing.T) {
				p := serve(t)
				s := p.open("nb")
				bindAll(t, s, map[string][]float32{"data": {0, 0, 0, 7}, "w": {1}})
				if _, err := s.Snapshot(""); err != nil {
					t.Fatal(err)
				}
				bindAll(t, s, map[string][]float32{"w": {2}})
				if i, err := s.Snapshot(""); err != nil || i.Written != 4 {
					t.Fatalf("got %+v, %v; want a snapshot of 4 bytes that needs the first one", i, err)
				}
				end := func(s *Session) {
					if err := s.Quota(-1); err != nil {
						t.Error(err)
					}
				}
				if f.make == nil {
					if err := s.Quota(10); err != nil {
						t.Fatal(err)
					}
				}
				p.stop()
				p.again()
				other := p.open("other")
				if f.make != nil {
					end = f.make(p, other)
				}
				s, err := Config{Socket: p.socket, Space: "nb"}.Open()
				if err != nil {
					end(other)
					t.Fatal(err)
				}
				defer s.Close()
				end(s)
				note := s.Welcome().Note
				if !strings.Contains(note, f.why) || !strings.Contains(note, "kept") || !strings.Contains(note, "%rollback") || strings.Contains(note, "lost") || strings.Contains(note, "damaged") {
					t.Errorf("got note %q, want the reason, that the snapshot is kept, and how to get it", note)
				}
				if got := look(t, s); got != "" {
					t.Errorf("got %s, want nothing: an older state is not taken for the newest", got)
				}
				switch way {
				case "next client":
					s = p.open("nb")
					if note := s.Welcome().Note; !strings.Contains(note, "2 arrays are back") || !strings.Contains(note, "a cell that ran before found nothing, because of ") || !strings.Contains(note, f.why) {
						t.Errorf("got note %q, want that the arrays are back, but were not for the client before", note)
					}
				case "next session":
					p.stop()
					p.again()
					s = p.reopen("nb")
				default:
					for i := range 5 {
						bindAll(t, s, map[string][]float32{"w": {float32(10 + i)}})
						if _, err := s.Snapshot(""); err != nil {
							t.Fatal(err)
						}
					}
					s = p.open("nb")
					if got := look(t, s); got != "w[14]" {
						t.Errorf("got %s after new arrays, want w[14]: they are not replaced unasked", got)
					}
					l, err := s.Snapshots()
					at := slices.IndexFunc(l, func(i wire.SnapshotInfo) bool { return i.Number == 2 })
					if err != nil || at < 0 || l[at].Damaged != "" || l[at].Arrays != 2 || l[at].Held == "" {
						t.Errorf("got snapshots %+v, %v; want number 2 among them, whole and held", l, err)
					}
					if _, err := s.Rollback("2", ""); err != nil {
						t.Fatal(err)
					}
				}
				if got := look(t, s); got != whole {
					t.Errorf("got %s, want %s; files: %q", got, whole, p.files())
				}
				for i := range 4 { // it is an ordinary one now
					bindAll(t, s, map[string][]float32{"w": {float32(20 + i)}})
					if _, err := s.Snapshot(""); err != nil {
						t.Fatal(err)
					}
				}
				if l, err := s.Snapshots(); err != nil || len(l) != 3 {
					t.Errorf("got %d snapshots, %v; want 3", len(l), err)
				}
			})
		}
	}
}

// TestUnrestoredAcrossSessions: it is also kept when sessions end and start that do
// have newer ones.
func TestUnrestoredAcrossSessions(t *testing.T) {
	p := serve(t)
	s := p.open("nb")
	bindAll(t, s, map[string][]float32{"w": {1, 2, 3, 4, 5, 6, 7, 8, 9}})
	if _, err := s.Snapshot(""); err != nil {
		t.Fatal(err)
	}
	if err := s.Quota(20); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		p.stop()
		p.again()
		s = p.reopen("nb")
		for k := range 4 {
			bindAll(t, s, map[string][]float32{"w": {float32(4*i + k)}})
			if _, err := s.Snapshot(""); err != nil {
				t.Fatal(err)
			}
		}
		if i > 0 && !strings.Contains(s.Welcome().Note, "%rollback 1 restores it") {
			t.Errorf("got note %q, want that snapshot 1 is kept", s.Welcome().Note)
		}
	}
	s.Quota(-1)
	if _, err := s.Rollback("1", ""); err != nil {
		t.Fatal(err)
	}
	if got := look(t, s); got != "w[1 2 3 4 5 6 7 8 9]" {
		t.Errorf("got %s, want w[1 2 3 4 5 6 7 8 9]", got)
	}
}

// TestJobUnrestored holds that a job whose snapshot could not be restored goes on from that
// snapshot only, with its log as it was, whatever is restored before it.
func TestJobUnrestored(t *testing.T) {
	for _, way := range []string{"at once", "rollback first", "session first", "both first"} {
		t.Run(way, func(t *testing.T) {
			p := serve(t)
			s := p.open("nb")
			const turns, chunks = 40, 50
			if _, err := s.StartJob(counting(t, s, turns, chunks, 1)); err != nil {
				t.Fatal(err)
			}
			within(t, "the job has counted", func() bool {
				l, err := s.Jobs()
				return err == nil && l[0].Entries > 100
			})
			paused, err := s.PauseJob("count")
			if err != nil || paused.State != wire.JobPaused {
				t.Fatalf("got %+v, %v; want a paused job", paused, err)
			}
			if err := s.Quota(10); err != nil {
				t.Fatal(err)
			}
			p.stop()
			p.again()
			s = p.reopen("nb")
			l, err := s.Snapshots()
			if err != nil || len(l) == 0 {
				t.Fatalf("got snapshots %+v, %v", l, err)
			}
			missed := fmt.Sprint(l[len(l)-1].Number)
			refused := func(when string) {
				t.Helper()
				_, err := s.StartJob(counting(t, s, 1, 1, 1))
				var e *wire.Error
				if !errors.As(err, &e) || !strings.Contains(e.Text, "is on disk") || !strings.Contains(e.Next, "%rollback "+missed+" ") {
					t.Errorf("%s: a new job of its name: got %#v, want that %%rollback %s restores the old one", when, err, missed)
				}
				if jobs, err := s.Jobs(); err != nil || len(jobs) > 1 || len(jobs) == 1 && jobs[0].State != wire.JobWaits {
					t.Errorf("%s: got jobs %+v, %v; want none that runs: its arrays are not here", when, jobs, err)
				}
			}
			if err := s.Quota(-1); err != nil {
				t.Fatal(err)
			}
			if way != "at once" {
				refused("before")
				bindAll(t, s, map[string][]float32{"mine": {1}})
				i, err := s.Snapshot("")
				if err != nil {
					t.Fatal(err)
				}
				if way != "session first" {
					if _, err := s.Rollback(fmt.Sprint(i.Number), ""); err != nil {
						t.Fatal(err)
					}
					refused("after the rollback")
				}
				if way != "rollback first" {
					p.stop()
					p.again()
					s = p.reopen("nb")
					if note := s.Welcome().Note; !strings.Contains(note, "job count waits") || !strings.Contains(note, "%rollback "+missed) {
						t.Errorf("got note %q, want that the job waits for snapshot %s", note, missed)
					}
					refused("in the next session")
					if jobs, err := s.Jobs(); err != nil || len(jobs) != 1 || jobs[0].State != wire.JobWaits || jobs[0].Name != "count" || !strings.Contains(jobs[0].Why, "%rollback "+missed) {
						t.Errorf("got jobs %+v, %v; want count, which waits for snapshot %s", jobs, err, missed)
					}
					if _, err := s.PauseJob("count"); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "waits for snapshot "+missed) {
						t.Errorf("pause of a job that waits: got %v", err)
					}
					if way == "both first" { // it is given up
						if err := s.ForgetJob("count"); err != nil {
							t.Fatal(err)
						}
						if jobs, err := s.Jobs(); err != nil || len(jobs) != 0 {
							t.Errorf("got jobs %+v, %v after it was forgotten, want none", jobs, err)
						}
						if _, err := s.StartJob(counting(t, s, 1, 1, 1)); err != nil {
							t.Errorf("a new job of its name: %v", err)
						}
						return
					}
				}
			}
			if _, err := s.Rollback(missed, ""); err != nil {
				t.Fatal(err)
			}
			jobs, err := s.Jobs()
			if err != nil || len(jobs) != 1 || jobs[0].State != wire.JobPaused || jobs[0].Entries != paused.Entries || jobs[0].Place != paused.Place {
				t.Fatalf("got jobs %+v, %v; want %+v", jobs, err, paused)
			}
			if _, err := s.ResumeJob("count"); err != nil {
				t.Fatal(err)
			}
			if info, log := follow(t, s, "count"); info.State != wire.JobDone {
				t.Errorf("the job is %s (%v), want done", info.State, info.Error)
			} else {
				checkCount(t, log, turns, chunks)
			}
		})
	}
}
