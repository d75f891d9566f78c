package session

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRemovedSnapshots: when somebody removes the files of snapshots, what is on the
// devices is written again as a whole: by the next snapshot, by the next automatic one, and
// when the session ends.
func TestRemovedSnapshots(t *testing.T) {
	remove := map[string]func(dir string) error{
		"all of the state": os.RemoveAll,
		"the oldest file": func(dir string) error {
			l, err := filepath.Glob(dir + "/snapshots/*/00000001.*")
			if err != nil || len(l) != 1 {
				t.Errorf("got files %q, %v", l, err)
				return err
			}
			return os.Remove(l[0])
		},
	}
	for name, remove := range remove {
		for _, way := range []string{"named", "automatic", "end"} {
			t.Run(name+", "+way, func(t *testing.T) {
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
				if err := remove(p.dir + "/state/gaiden"); err != nil {
					t.Fatal(err)
				}
				switch way {
				case "named":
					if i, err := s.Snapshot("mine"); err != nil || i.Written != 20 {
						t.Fatalf("got %+v, %v; want a snapshot with all 20 bytes", i, err)
					}
					p.kill()
					p.again()
				case "automatic":
					within(t, "a snapshot with all data", func() bool {
						l, err := s.Snapshots()
						return err == nil && len(l) > 0 && l[len(l)-1].Number > 2 && l[len(l)-1].Damaged == ""
					})
					p.kill()
					p.again()
				default:
					p.stop()
					p.again()
				}
				if got := look(t, p.reopen("nb")); got != "data[0 0 0 7] w[2]" {
					t.Errorf("got %s, want data[0 0 0 7] w[2]; files: %q", got, p.files())
				}
			})
		}
	}
}
