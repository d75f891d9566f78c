package session

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestJobRace holds that of two jobs that are started at the same time and do not go
// together one is refused, and that the refusal changes neither the log of the one that
// runs nor that of an ended job whose name the other was to have.
func TestJobRace(t *testing.T) {
	for _, names := range [][2]string{{"count", "count"}, {"count", "other"}} {
		t.Run(names[1], func(t *testing.T) {
			p := serve(t)
			var s [2]*Session
			var jobs [2]Job
			const turns, chunks = 2, 3
			for i, name := range names {
				s[i] = p.open("race")
				jobs[i] = counting(t, s[i], turns, chunks, 1)
				jobs[i].Name = name
			}
			run := func(i int) error { _, err := s[i].StartJob(jobs[i]); return err }
			for i, name := range names { // each name has had a job
				bindAll(t, s[0], map[string][]float32{"w": make([]float32, 1000), "order": {0}, "step": {0}})
				if err := run(i); err != nil {
					t.Fatal(err)
				}
				follow(t, s[0], name)
			}
			refused := 0
			for range 30 {
				bindAll(t, s[0], map[string][]float32{"w": make([]float32, 1000), "order": {0}, "step": {0}})
				var errs [2]error
				var wg sync.WaitGroup
				for i := range s {
					wg.Go(func() { errs[i] = run(i) })
				}
				wg.Wait()
				if errs[0] != nil && errs[1] != nil {
					t.Fatalf("both are refused: %v; %v", errs[0], errs[1])
				}
				if errs[0] == nil && errs[1] == nil { // one after the other's end
					for _, name := range names {
						follow(t, s[0], name)
					}
					continue
				}
				refused++
				for _, name := range names {
					info, l := follow(t, s[0], name)
					if info.State != wire.JobDone {
						t.Fatalf("job %s is %s (%v)", name, info.State, info.Error)
					}
					if len(l) != turns*chunks {
						t.Fatalf("job %s: log has %d entries, want %d", name, len(l), turns*chunks)
					}
				}
			}
			if refused == 0 {
				t.Error("no job was refused")
			}
		})
	}
}

// TestJobWithoutLog: a job whose log cannot be made does not take the place of an ended one.
func TestJobWithoutLog(t *testing.T) {
	p := serve(t)
	s := p.open("nb")
	j := counting(t, s, 2, 3, 1)
	if _, err := s.StartJob(j); err != nil {
		t.Fatal(err)
	}
	follow(t, s, "count")
	logs, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/job-*.log")
	if len(logs) != 1 {
		t.Fatalf("got logs %q, want one", logs)
	}
	if err := os.Rename(logs[0], logs[0]+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(logs[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartJob(j); err == nil {
		t.Fatal("it started without a log")
	}
	info, l := follow(t, s, "count")
	if info.State != wire.JobDone {
		t.Errorf("the old job is %s, want done", info.State)
	}
	checkCount(t, l, 2, 3)
}
