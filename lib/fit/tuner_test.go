package fit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"golang.org/x/sys/unix"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// cell is what a cell's process does: it trains a net, leaves a tuner behind, and ends.
func cell() error {
	startTuner = func() error {
		os.Setenv(devicetest.Role, "tuner")
		cmd := exec.Command("/proc/self/exe")
		session.Detach(cmd)
		return cmd.Start()
	}
	n := New("net", small(), Config{Kernels: plainOps})
	data, err := n.Upload("bars", digits(40, n.model.Input, 1))
	if err == nil {
		_, err = n.Fit(data, tenths)
	}
	return err
}

// tune is the process that a cell leaves behind.
func tune() error {
	idleTime, shortestTiming = 50*time.Millisecond, 0
	playAsides()
	_, err := RunTuneRequests(context.Background(), true, func(string) {})
	return err
}

// TestCellsTune runs cells as processes that end with their training. What the first one
// leaves to be found out is found out when it has ended, and the second leaves nothing.
func TestCellsTune(t *testing.T) {
	socket := devicetest.Start(t)
	s := await(t, socket)
	cache := t.TempDir()
	run := func() {
		t.Helper()
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), devicetest.Role+"=cell", "GAIDEN_SOCKET="+socket, "GAIDEN_SPACE="+s.Space(), "XDG_CACHE_HOME="+cache)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("the cell: %v: %s", err, out)
		}
	}
	run()
	t.Setenv("XDG_CACHE_HOME", cache)
	n := attach(t, s, "net", small(), Config{Kernels: plainOps})
	var found tiling.Entry
	for end := time.Now().Add(30 * time.Second); found.Micros == 0 || len(waiting(t)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("got %+v, and %q waiting, want the times of a step", found, waiting(t))
		}
		table, err := tiling.Open(s)
		if err != nil {
			t.Fatal(err)
		}
		found = table.Known(n.stepKey(10))
	}
	if found.Plain <= 0 {
		t.Errorf("got %+v, want the time of XLA's form too", found)
	}
	if kept, err := filepath.Glob(filepath.Join(cache, "gaiden", "programs", "*")); err != nil || len(kept) < 2 {
		t.Errorf("got programs %q and %v on the disk, want those of both forms", kept, err)
	}
	run()
	if l := waiting(t); len(l) > 0 {
		t.Errorf("after the second cell: got %q waiting, want nothing", l)
	}
}

// TestNice holds that the tuner gives way to cells, which do not give way to it.
func TestNice(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), devicetest.Role+"=nice")
	if err := startNice(cmd); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(stdout)
	if err != nil || cmd.Wait() != nil {
		t.Fatal(err)
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if want := fmt.Sprint(20 - min(19, 20-own+niceness)); err != nil || string(said) != want {
		t.Errorf("got a priority of %s in the kernel's words, and %d here (%v), want %s", said, own, err, want)
	}
}

// nice says the priority of its process, as the system call gives it: 20 less the niceness.
func nice() error {
	p, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	fmt.Print(p)
	return err
}

// waiting are the files of requests.
func waiting(t *testing.T) []string {
	t.Helper()
	l, err := filepath.Glob(filepath.Join(requestDir(), "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// leave makes a net's run leave a request, and says how often a tuner was started.
func leave(t *testing.T, n *Net, data *Set) (started int) {
	t.Helper()
	defer func(was func() error) { startTuner = was }(startTuner)
	startTuner = func() error { started++; return nil }
	requested.Clear()
	n.config.Session = nil // as a cell's net
	defer func() { n.config.Session = n.session }()
	for range 2 {
		if _, err := n.Fit(data, tenths); err != nil {
			t.Fatal(err)
		}
	}
	return started
}

// TestTuner holds what becomes of requests.
func TestTuner(t *testing.T) {
	defer func(was time.Duration) { idleTime = was }(idleTime)
	idleTime = 20 * time.Millisecond
	for _, tt := range []struct {
		name string
		then func(t *testing.T, s *session.Session, n *Net) // between the run and the tuner
		done int
		left int
		told string // of what was not found
	}{
		{"it comes true", func(*testing.T, *session.Session, *Net) {}, 1, 0, ""},
		{"the net is gone", func(t *testing.T, s *session.Session, n *Net) { remove(t, s, n.name+"/*") }, 1, 0, "has been removed, or changed"},
		{"a layer is gone", func(t *testing.T, s *session.Session, n *Net) { remove(t, s, n.name+"/output/*") }, 1, 0, "no output/"},
		{"the set is gone", func(t *testing.T, s *session.Session, n *Net) { remove(t, s, "data/*") }, 1, 0, "no data set"},
		{"another optimizer", func(t *testing.T, s *session.Session, n *Net) {
			attach(t, s, n.name, n.model, Config{Optimizer: optim.SGD{Momentum: 0.9}})
		}, 1, 0, "no adam/"},
		{"another net", func(t *testing.T, s *session.Session, n *Net) {
			remove(t, s, n.name+"/*")
			attach(t, s, n.name, models.MLP(3), Config{})
		}, 1, 0, "the session has no"},
		{"a set that is too small", func(t *testing.T, s *session.Session, n *Net) {
			load(t, n, "bars", digits(5, n.model.Input, 1))
		}, 1, 0, "batch of 10 from the 5 examples"},
		{"a file that is torn", func(t *testing.T, s *session.Session, n *Net) {
			if err := os.WriteFile(waiting(t)[0], []byte(`{"torn`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 0, 0, ""},
		{"it has cost the session before", func(t *testing.T, s *session.Session, n *Net) {
			w, err := readRequest(waiting(t)[0])
			if w.Crashes = maxCrashes; err != nil || w.save() != nil {
				t.Fatal(err)
			}
		}, 0, 1, ""},
		{"of another session", func(t *testing.T, s *session.Session, n *Net) { t.Setenv("GAIDEN_SOCKET", "/nowhere") }, 0, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			t.Setenv("GAIDEN_SOCKET", server.socket)
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			n := attach(t, s, fmt.Sprintf("net%p", t), small(), Config{Kernels: plainOps})
			data := load(t, n, "bars", digits(40, n.model.Input, 1))
			if started := leave(t, n, data); started != 1 || len(waiting(t)) != 1 {
				t.Fatalf("got %d tuners started and %q left by two runs, want one of each", started, waiting(t))
			}
			tt.then(t, s, n)
			before := names(t, s)
			var told []string
			done, err := RunTuneRequests(context.Background(), true, func(l string) { told = append(told, l) })
			if err != nil || done != tt.done || len(waiting(t)) != tt.left {
				t.Errorf("got %d done, %q left and %v, want %d and %d", done, waiting(t), err, tt.done, tt.left)
			}
			if text := strings.Join(told, "\n"); strings.Contains(text, "not tuned") != (tt.told != "") || !strings.Contains(text, tt.told) {
				t.Errorf("told %q, want %q", text, tt.told)
			}
			if after := names(t, s); !slices.Equal(after, before) {
				t.Errorf("got arrays %q, want those before: %q", after, before)
			}
		})
	}
}

func remove(t *testing.T, s *session.Session, names string) {
	t.Helper()
	if _, err := s.Delete(names); err != nil {
		t.Fatal(err)
	}
}

// names are those of a session's arrays, with the generation of each.
func names(t *testing.T, s *session.Session) (l []string) {
	t.Helper()
	all, err := s.List("")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		l = append(l, fmt.Sprint(a.Name, " ", a.Type))
	}
	return l
}

// TestTunerEnds holds that a tuner ends with its context, with the session and where there
// is another, and that requests wait.
func TestTunerEnds(t *testing.T) {
	socket := devicetest.Start(t)
	t.Setenv("GAIDEN_SOCKET", socket)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := await(t, socket)
	n := attach(t, s, "net", small(), Config{Kernels: plainOps})
	leave(t, n, load(t, n, "bars", digits(40, n.model.Input, 1)))
	if _, err := s.Snapshot(""); err != nil { // so that the net comes back
		t.Fatal(err)
	}
	run := func(ctx context.Context) error {
		t.Helper()
		done, err := RunTuneRequests(ctx, false, func(l string) { t.Log(l) })
		if l := waiting(t); done != 0 || len(l) != 1 {
			t.Errorf("got %d done, and %q waiting, want none, and the request", done, l)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its time is over: got %v", err)
	}
	lock, err := os.OpenFile(filepath.Join(requestDir(), "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background()); !errors.Is(err, wire.Busy) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("another tunes: got %v, want busy, with process %d", err, os.Getpid())
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	status, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	for lost := 1; lost <= maxCrashes; lost++ { // while it waits for a pause, so that nothing is found
		go func() {
			time.Sleep(time.Second)
			unix.Kill(status.WorkerPID, unix.SIGKILL)
		}()
		if err := run(context.Background()); !errors.Is(err, wire.Lost) {
			t.Errorf("the session ends: got %v, want that it is lost", err)
		}
		if w, err := readRequest(waiting(t)[0]); err != nil || w.Crashes != lost {
			t.Errorf("got %d losses noted and %v, want %d", w.Crashes, err, lost)
		}
		s = await(t, socket)
		if status, err = s.Status(); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		time.Sleep(time.Second)
		s.Ask(wire.AskBody{Verb: wire.Stop})
	}()
	if err := run(context.Background()); !errors.Is(err, wire.Lost) {
		t.Errorf("the session is stopped: got %v, want that it is lost", err)
	}
	if w, err := readRequest(waiting(t)[0]); err != nil || w.Crashes != maxCrashes {
		t.Errorf("stopped: got %d losses noted and %v, want no more", w.Crashes, err)
	}
	if err := run(context.Background()); !errors.Is(err, wire.Unavailable) {
		t.Errorf("no session: got %v, want that none answers", err)
	}
	s = open(t)
	t.Setenv("GAIDEN_SOCKET", server.socket)
	w, err := readRequest(waiting(t)[0])
	if w.Socket, w.Space = server.socket, s.Space(); err != nil || w.save() != nil {
		t.Fatal(err)
	}
	n = attach(t, s, "net", small(), Config{Kernels: plainOps})
	if started := leave(t, n, load(t, n, "bars", digits(40, n.model.Input, 1))); started != 0 {
		t.Error("a run begins a tuner for a request that cost the session three times")
	}
}

// TestTunerApart holds that a tuner with no session to try kernels in ends, that its request is
// left alone when that was so three times, and that the net's session is not to blame.
func TestTunerApart(t *testing.T) {
	s := open(t)
	t.Setenv("GAIDEN_SOCKET", server.socket)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	defer func(was time.Duration) { idleTime = was }(idleTime)
	idleTime = 20 * time.Millisecond
	defer func(was func() (string, error)) { sessionBinary = was }(sessionBinary)
	sessionBinary = func() (string, error) { return "", errors.New("there is no gaiden") }
	n := attach(t, s, "net", small(), Config{Kernels: plainOps})
	leave(t, n, load(t, n, "bars", digits(40, n.model.Input, 1)))
	for lost := 1; lost <= maxCrashes; lost++ {
		done, err := RunTuneRequests(context.Background(), true, func(string) {})
		if !errors.Is(err, errNoSandbox) || !strings.Contains(err.Error(), "there is no gaiden") || done != 0 {
			t.Errorf("got %d done and %v, want that there is no session to try kernels in", done, err)
		}
		if w, err := readRequest(waiting(t)[0]); err != nil || w.Crashes != lost {
			t.Errorf("got %d times noted and %v, want %d", w.Crashes, err, lost)
		}
	}
	if done, err := RunTuneRequests(context.Background(), true, func(string) {}); done != 0 || err != nil || len(waiting(t)) != 1 {
		t.Errorf("after three times: got %d done, %v and %q left, want that it is left alone", done, err, waiting(t))
	}
	playAsides()
	if done, err := RunTuneRequests(context.Background(), false, func(string) {}); done != 1 || err != nil || len(waiting(t)) != 0 {
		t.Errorf("by hand, with gaiden: got %d done, %v and %q left, want that it comes true", done, err, waiting(t))
	}
}

// TestRequests holds which nets' runs leave a request.
func TestRequests(t *testing.T) {
	norm := models.Net{Name: "norm", Input: []int{4, 4, 1}, Layers: []models.Layer{models.Flatten{}, models.Dense{Name: "dense", Units: 8}, models.BatchNorm{Name: "norm"}, models.Dense{Name: "output", Units: 10}}}
	deep := small()
	deep.Layers = append([]models.Layer{models.Conv2D{Name: "wide", Channels: 40, Kernel: 3, Same: true, NoBias: true}}, deep.Layers...)
	deep.Layers = append([]models.Layer{models.Conv2D{Name: "wider", Channels: 40, Kernel: 3, Same: true, NoBias: true}}, deep.Layers...)
	own := small()
	own.Layers = append(slices.Clip(own.Layers), models.Activation{Act: func(x *graph.Node) *graph.Node { return graph.MulScalar(x, 2) }})
	for _, tt := range []struct {
		name   string
		model  models.Net
		config Config
		want   int
	}{
		{"plain", small(), Config{}, 1},
		{"batch norm", norm, Config{}, 1},
		{"another loss", small(), Config{Loss: losses.CrossEntropy{Smoothing: 0.1}}, 1},
		{"a loss of its own", small(), Config{Loss: losses.Func{Name: "own", Of: func(out, y *graph.Node) *graph.Node { return graph.ReduceMean(graph.Square(out), -1) }}}, 0},
		{"few weights with kernels", deep, Config{}, 0},
		{"options", small(), Config{Flags: map[string]any{"xla_cpu_enable_fast_math": false}}, 1},
		{"a function of its own", own, Config{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			t.Setenv("GAIDEN_SOCKET", server.socket)
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			n := attach(t, s, "net", tt.model, tt.config)
			data := load(t, n, "bars", digits(40, n.model.Input, 1))
			n.config.Kernels = plainOps
			if started := leave(t, n, data); started != tt.want || len(waiting(t)) != tt.want {
				t.Errorf("got %d tuners started and %q left, want %d", started, waiting(t), tt.want)
			}
		})
	}
}

// TestJobLeavesWish holds that a job's net is tuned, too, when the job has ended.
func TestJobLeavesWish(t *testing.T) {
	s := open(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	n := attach(t, s, "net", small(), Config{Kernels: plainOps})
	data := load(t, n, "bars", digits(40, n.model.Input, 1))
	started := 0
	defer func(was func() error) { startTuner = was }(startTuner)
	startTuner = func() error { started++; return nil }
	requested.Clear()
	n.config.Session = nil // as a cell's net
	job, err := n.FitJob(data, tenths)
	if err != nil {
		t.Fatal(err)
	}
	job.session = s
	if _, err := job.Follow(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if started != 1 || len(waiting(t)) != 1 {
		t.Errorf("got %d tuners started and %q waiting, want one of each", started, waiting(t))
	}
}
