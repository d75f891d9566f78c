package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/kernels/internal/magic"
	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/device"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

func TestSizeOf(t *testing.T) {
	tests := []struct {
		in   string
		want int64 // 0: an error
	}{
		{"2GB", 2_000_000_000}, {"1.5GiB", 3 << 29}, {"100", 100}, {"7 MB", 7_000_000}, {"3kib", 3 << 10}, {"none", -1},
		{"", 0}, {"GB", 0}, {"2XB", 0}, {"-1GB", 0}, {"1e99", 0}, {"99999999999GB", 0},
	}
	for _, tt := range tests {
		got, err := sizeOf(tt.in)
		if got != tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("sizeOf(%q) is %d, %v, want %d", tt.in, got, err, tt.want)
		}
	}
}

// page is a magic.Host that keeps what it is shown.
type page struct{ strings.Builder }

func (p *page) Stdout() io.Writer          { return p }
func (p *page) Left() <-chan struct{}      { return nil }
func (p *page) Progress() []map[string]any { return nil }
func (p *page) Live() func(map[string]any, bool) {
	return func(data map[string]any, _ bool) { p.Show(data) }
}
func (p *page) Stderr() io.Writer                  { return p }
func (p *page) Page(data map[string]any)           { p.Show(data) }
func (p *page) Go(context.Context, string) error   { return nil }
func (p *page) Keep(context.Context, string) error { return nil }
func (p *page) Next(string)                        {}
func (p *page) Show(data map[string]any)           { p.WriteString(data["text/plain"].(string) + "\n") }

// inProcess starts a worker in this process, and makes it the session.
func inProcess(t *testing.T) {
	t.Helper()
	stop := inProcessAt(t, t.TempDir())
	t.Cleanup(stop)
}

// inSession is inProcess, and a connection to the session.
func inSession(t *testing.T) *session.Session {
	t.Helper()
	inProcess(t)
	s, err := session.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inProcessAt is inProcess with a directory for the session's files. What it
// returns ends the session, and leaves them.
func inProcessAt(t *testing.T, dir string) (stop func()) {
	t.Helper()
	plugin := os.Getenv("GAIDEN_PLUGIN")
	if plugin == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file, or use scripts/test, which fetches one")
	}
	w := &device.Worker{Version: session.Version, Generation: 1, Plugin: device.Plugin{Path: plugin, Device: "cpu"}, Programs: dir + "/programs", State: dir + "/snapshots"}
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- w.Run(l) }()
	t.Setenv("GAIDEN_SOCKET", socket)
	t.Setenv("GAIDEN_SPACE", "test.ipynb")
	return func() {
		l.Close()
		<-done
	}
}

// TestToldWhatCameBack ends the session between two cells, twice: the next one says so,
// also in the same words.
func TestToldWhatCameBack(t *testing.T) {
	dir := t.TempDir()
	cell := notebook.Ending{Imports: []string{"gaiden/lib/session"}, Spent: func(string) {}}
	var a aftercare
	stop := inProcessAt(t, dir)
	s, err := session.Open()
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
	if err == nil {
		err = s.Bind([]string{"w"}, []*session.Array{x})
	}
	if err != nil {
		t.Fatal(err)
	}
	if notes, err := a.ended(t.Context(), cell); len(notes) > 0 || err != nil {
		t.Errorf("a cell before: got %q, %v", notes, err)
	}
	if _, err := s.Snapshot("saved"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for range 2 {
		stop()
		a.session.Close() // as a process that ends does
		later := t.TempDir()
		if err := os.Rename(dir+"/snapshots", later+"/snapshots"); err != nil {
			t.Fatal(err)
		}
		os.Remove(later + "/snapshots/lock") // which belongs to this process until it ends
		dir, stop = later, inProcessAt(t, later)
		for i, want := range []string{"the session was started again: 1 array is back as it was at ", ""} {
			notes, err := a.ended(t.Context(), cell)
			if got := strings.Join(notes, "; "); err != nil || !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("cell %d after: got %q, %v, want %q", i+1, got, err, want)
			}
		}
	}
	stop()
	a.session.Close()
}

// TestToldWhatIsNotBack: the first cell of a kernel says what could not be restored of its
// notebook, that of the next kernel does not say it again, and of what is back neither.
func TestToldWhatIsNotBack(t *testing.T) {
	cell := notebook.Ending{Imports: []string{"gaiden/lib/session"}, Spent: func(string) {}}
	for _, tt := range []struct {
		name  string
		quota int64
		want  []string // by kernel
	}{
		{"back", 0, []string{"", ""}},
		{"not back", 1, []string{"note of the session: snapshot 1 of ", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			stop := inProcessAt(t, dir)
			s, err := session.Open()
			if err != nil {
				t.Fatal(err)
			}
			x, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
			if err == nil {
				err = s.Bind([]string{"w"}, []*session.Array{x})
			}
			if err == nil {
				_, err = s.Snapshot("saved")
			}
			if err == nil && tt.quota > 0 {
				err = s.Quota(tt.quota)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			stop()
			later := t.TempDir()
			if err := os.Rename(dir+"/snapshots", later+"/snapshots"); err != nil {
				t.Fatal(err)
			}
			os.Remove(later + "/snapshots/lock") // which belongs to this process until it ends
			t.Cleanup(inProcessAt(t, later))
			for i, want := range tt.want {
				var a aftercare
				notes, err := a.ended(t.Context(), cell)
				if got := strings.Join(notes, "; "); err != nil || !strings.HasPrefix(got, want) || want == "" && got != "" {
					t.Errorf("kernel %d: got %q, %v, want %q", i+1, got, err, want)
				}
				a.session.Close()
			}
		})
	}
}

// TestToldUnsaved: a cell says once that the notebook's arrays cannot be saved, and again
// after they could be meanwhile.
func TestToldUnsaved(t *testing.T) {
	s := inSession(t)
	cell := notebook.Ending{Imports: []string{"gaiden/lib/session"}, Spent: func(string) {}}
	var a aftercare
	defer func() { a.session.Close() }()
	told := func(want string) {
		t.Helper()
		notes, err := a.ended(t.Context(), cell)
		if got := strings.Join(notes, "; "); err != nil || !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	save := func(v float32) error {
		x, err := s.Put([]float32{v}, shapes.Make(dtypes.Float32, 1), 0)
		if err == nil {
			err = s.Bind([]string{"w"}, []*session.Array{x})
		}
		if err == nil {
			_, err = s.Snapshot("")
		}
		return err
	}
	if err := save(1); err != nil {
		t.Fatal(err)
	}
	told("")
	l, err := s.Snapshots()
	if err != nil || len(l) != 1 {
		t.Fatalf("got snapshots %v, %v", l, err)
	}
	for range 2 {
		os.Chmod(filepath.Dir(l[0].File), 0o777) // in which nobody's snapshots are safe
		if err := save(2); err == nil {
			t.Fatal("a snapshot in everybody's directory: got no error")
		}
		told("the notebook's arrays are not saved: ")
		told("")
		os.Chmod(filepath.Dir(l[0].File), 0o700)
		if err := save(3); err != nil {
			t.Fatal(err)
		}
		told("")
	}
}

// TestStateMagics types the magics as a user does.
func TestStateMagics(t *testing.T) {
	s := inSession(t)
	bind := func(v float32) {
		t.Helper()
		a, err := s.Put([]float32{v, 2}, shapes.Make(dtypes.Float32, 2), 0)
		if err == nil {
			err = s.Bind([]string{"net/w"}, []*session.Array{a})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	bind(1)
	file := filepath.Join(t.TempDir(), "net.safetensors")
	steps := []struct {
		cell string
		do   func()
		want string // in what is shown, or in the error
	}{
		{"%arrays", nil, "not yet"},
		{"%rollback last", nil, "has no snapshot"},
		{"%rollback", nil, "changed arrays; 1 array as before it"},
		{"%arrays", nil, "no arrays"},
		{"%rollback", nil, "changed arrays; 1 array as before it"},
		{"%snapshot good", nil, `snapshot 1 "good": 1 array, 8 B`},
		{"%arrays", nil, "snapshot 1"},
		{"%snapshot diff good", func() { bind(4) }, "1 of 2"},
		{"%snapshot export " + file + " good", nil, "1 array in"},
		{"%rollback good", nil, `back at snapshot 1 "good"`},
		{"%snapshot diff good", nil, "no difference"},
		{"%snapshot diff last", nil, "no difference"}, // a rollback is saved
		{"%snapshot import " + file + " old/", nil, "1 array from"},
		{"%arrays old", nil, "old/net/w"},
		{"%rollback good", func() { bind(5) }, "back at snapshot 1"},
		{"%rollback", func() { bind(6) }, "changed arrays; 1 array as before it"}, // not what the magic has done before
		{"%snapshot diff good", nil, "no difference"},
		{"%snapshot import " + file, func() { bind(7) }, "1 array from"},
		{"%rollback", func() { bind(8) }, "changed arrays; 1 array as before it"},
		{"%snapshot diff good", nil, "no difference"},
		{"%rollback", nil, "changed arrays; 1 array as before it"},
		{"%rollback", func() { bind(9) }, "changed arrays; 1 array as before it"},
		{"%snapshot diff good", nil, " 7 "}, // 8 in place of 1: the rollback before had brought it back
		{"%snapshot list", nil, "good"},
		{"%snapshot delete good", nil, ""},
		{"%snapshot delete good", nil, "no snapshot \"good\""},
		{"%snapshot diff", nil, "%snapshot [NAME"},
		{"%device quota 1kB", nil, "has a quota of 1.00 kB, and arrays of "},
		{"%device", nil, "1.00 kB"},
		{"%device quota 0", nil, "nothing would fit"},
		{"%monitor", nil, "session "},
		{"%monitor", nil, "1.00 kB"},
		{"%monitor soon", nil, `got "soon", want a number of seconds`},
		{"%hosts", nil, "this session"},
		{"%hosts add", nil, "want %hosts [add ADDRESS"},
		{"%hosts add gpu2", nil, `host "gpu2": want the path of its socket, or HOST:PORT`},
		{"%hosts add /none/s", nil, "CPU plugin cannot compute on several hosts"},
		{"%hosts add /none/s -secret", nil, "want %hosts [add ADDRESS"},
		{"%hosts add gpu2:7001 -secret /none/secret", nil, "no such file"},
		{"%hosts remove /none/s", nil, `no host "/none/s" in this session`},
		{"%programs", nil, "on disk: 0 programs"},
		{"%programs pin abc", nil, "no program"},
		{"%programs pin", nil, "no program was named"},
		{"%programs evict abc", nil, "no program \"abc\" in memory"},
		{"%session reset hard", nil, `got "reset hard", want %session`},
		{"%session status " + strings.Repeat("x", 10<<10), nil, `got "status ` + strings.Repeat("x", 73) + `", want %session`},
		{"%info all", nil, `got "all", want %info`},
		{"%jobs", nil, "net.FitJob"},
		{"%jobs stop x", nil, "no job"},
		{"%jobs dance x", nil, "%jobs [all | attach"},
		{"%jobs all", nil, "no jobs"},
		{"%jobs stop x elsewhere", nil, "notebook \"elsewhere\" has no job"},
	}
	for _, tt := range steps {
		if tt.do != nil {
			tt.do()
		}
		shown := typed(t, tt.cell)
		if !strings.Contains(shown, tt.want) || tt.want == "" && shown != "" {
			t.Errorf("%s: got %q, want %q", tt.cell, shown, tt.want)
		}
	}
}

// TestManyArrays holds that a page of names is not filled with all that there are, and
// that the requested ones are shown.
func TestManyArrays(t *testing.T) {
	s := inSession(t)
	a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range mostArrays + 5 {
		names = append(names, fmt.Sprintf("a%04d", i))
	}
	if err := s.Bind(names, slices.Repeat([]*session.Array{a}, len(names))); err != nil {
		t.Fatal(err)
	}
	shown := typed(t, "%arrays")
	if strings.Count(shown, "float32[1]") != mostArrays || !strings.Contains(shown, "1,005 arrays") || !strings.Contains(shown, "5 more: %arrays with") {
		t.Errorf("got %d arrays, ending with %q, want %d, how many there are, and how the others are seen", strings.Count(shown, "float32[1]"), shown[max(0, len(shown)-200):], mostArrays)
	}
	if shown := typed(t, "%arrays a100"); strings.Count(shown, "float32[1]") != 5 {
		t.Errorf("got %q, want the last five", shown)
	}
}

// TestOddNames lists what has names that deceive the eye or fill the page: they
// are shown so that nobody takes one for another, and found as they are.
func TestOddNames(t *testing.T) {
	s := inSession(t)
	long := strings.Repeat("n", 300) + strings.Repeat("m", 212)
	for _, n := range []string{"wei\u202eghts", " w", "w", long} {
		a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
		if err == nil {
			err = s.Bind([]string{n}, []*session.Array{a})
		}
		if err != nil {
			t.Fatalf("%.20q: %v", n, err)
		}
	}
	if _, err := s.Snapshot("wei\u202eghts"); err != nil {
		t.Fatal(err)
	}
	cut := strings.Repeat("n", 32) + "…" + strings.Repeat("m", 31)
	for _, tt := range []struct{ cell, want string }{
		{"%arrays", "\n\"wei\\u202eghts\" "},
		{"%arrays", "\n\" w\" "},
		{"%arrays", "\n" + cut + "  float32[1]"},
		{"%arrays", "1 long name cut: %arrays with"},
		{"%arrays n", "\n" + long + "  float32[1]"},
		{"%arrays none", "no arrays that begin with \"none\" in notebook"},
		{"%snapshot list", "\"wei\\u202eghts\" "},
		{"%rollback wei\u202eghts", "back at snapshot 1 \"wei\\u202eghts\""},
		{"%device quota 10", "has a quota of 10 B"},
	} {
		shown := typed(t, tt.cell)
		if !strings.Contains("\n"+shown, tt.want) || strings.Contains(shown, "\u202e") {
			t.Errorf("%s: got %q, want %q and no \\u202e", tt.cell, shown, tt.want)
		}
	}
	if got := look(t, s, "wei\u202eghts", " w", long); got != 3 {
		t.Errorf("%d of 3 arrays are found by their names after a rollback", got)
	}
	_, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
	if err == nil {
		err = s.Wait()
	}
	var e interface{ Hint() string }
	if !errors.As(err, &e) || strings.Contains(e.Hint(), "\u202e") || !strings.Contains(e.Hint(), `"wei\u202eghts" float32[1]`) || !strings.Contains(e.Hint(), cut) {
		t.Errorf("full: got %v, want a hint that shows the names", err)
	}
}

// look counts the names that have arrays.
func look(t *testing.T, s *session.Session, names ...string) (found int) {
	t.Helper()
	for _, n := range names {
		if _, err := s.Array(n); err == nil {
			found++
		}
	}
	return found
}

// typed is what a magic shows, or its error.
func typed(t *testing.T, cell string) string {
	t.Helper()
	plan, err := sessionMagics().Parse(cell)
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Commands[0]
	var shown page
	if err := c.Row.Run(context.Background(), &shown, c); err != nil {
		shown.WriteString(err.Error())
	}
	return shown.String()
}

// TestJobMagics attaches to the training of a net from another connection.
func TestJobMagics(t *testing.T) {
	s := inSession(t)
	n, err := fit.Attach(s, "mlp", models.Net{Name: "mlp", Input: []int{4}, Layers: []models.Layer{models.Dense{Name: "o", Units: 3}}}, fit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 400), make([]int32, 100)
	for i := range y {
		y[i] = int32(i % 3)
		x[4*i+i%3] = 1
	}
	data, err := n.Upload("train", fit.Data{X: x, Y: y})
	if err == nil {
		_, err = n.FitJob(data, fit.Train{Epochs: 3, Batch: 10})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ cell, want string }{
		{"%jobs attach mlp", "] done: 3 epochs in "},
		{"%programs", "uint64[3], float32[4 3], 2 more → float32["}, // what finish takes and gives: as many rows as a chunk has steps, by the pace, and one
		{"%jobs attach mlp", "main/accuracy"},                       // one that has ended
		{"%jobs", "3 of 3 epochs  3 entries"},
		{"%jobs pause mlp", "has ended"},
		{"%jobs forget mlp", ""},
		{"%jobs attach mlp", "no job"},
		{"%%job mlp\nnet.Fit(data)", "%%job: nothing was run"},
	} {
		if shown := typed(t, tt.cell); !strings.Contains(shown, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.cell, shown, tt.want)
		}
	}
}

var _ magic.Host = (*page)(nil)
