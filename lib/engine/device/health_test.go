package device

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// doubtful is a worker in this process whose devices answer as try says, once there
// is one. ended hears what Run returns.
func doubtful(t *testing.T, dir string, try func(*Worker, *hosts.Device) error) (w *Worker, s *session.Session, ended chan error) {
	t.Helper()
	plugin := os.Getenv("GAIDEN_PLUGIN")
	if plugin == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file, or use scripts/test, which fetches one")
	}
	w = &Worker{Version: session.Version, Generation: 1, Plugin: Plugin{Path: plugin, Device: "cpu"}, State: filepath.Join(dir, "snapshots")}
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	w.health.try = func(d *hosts.Device) error { return try(w, d) }
	socket := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- w.Run(l) })
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	if s, err = (session.Config{Socket: socket, Space: "doubt", NoStart: true}).Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return w, s, ended
}

// written compiles what write makes of four floats.
func written(s *session.Session, name string, write func(f *hlo.Function, x compute.Value) (compute.Value, error)) (*session.Program, error) {
	b := hlo.NewBuilder(nil, name, nil)
	f := b.Main().(*hlo.Function)
	x, err := f.Parameter("x", shapes.Make(dtypes.Float32, 4), nil)
	if err != nil {
		return nil, err
	}
	y, err := write(f, x)
	if err != nil {
		return nil, err
	}
	if err := f.Return([]compute.Value{y}, nil); err != nil {
		return nil, err
	}
	p, err := b.Program()
	if err != nil {
		return nil, err
	}
	return s.Compile(p, session.Options{})
}

// astray is a call of what the plugin does not have: of its error nobody knows whether
// it was the end of the devices.
func astray(s *session.Session) error {
	_, err := written(s, "astray", func(f *hlo.Function, x compute.Value) (compute.Value, error) {
		out, err := f.CustomCall("CUDA_ERROR_LAUNCH_FAILED", []compute.Value{x}, []shapes.Shape{shapes.Make(dtypes.Float32, 4)}, hlo.CallConfig{})
		if err != nil {
			return nil, err
		}
		return out[0], nil
	})
	return err
}

// keep gives an array of four floats a name.
func keep(t *testing.T, s *session.Session, name string, v []float32) {
	t.Helper()
	a, err := s.Put(v, shapes.Make(dtypes.Float32, 4), 0)
	if err == nil {
		err = s.Bind([]string{name}, []*session.Array{a})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// kept checks the array of a name.
func kept(t *testing.T, s *session.Session, name string, want []float32) {
	t.Helper()
	got := make([]float32, len(want))
	a, err := s.Array(name)
	if err == nil {
		err = a.Values(got)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
	}
}

// TestDoubt: an error that says it was the end is none while the devices answer, or
// are only full.
func TestDoubt(t *testing.T) {
	asked := make(chan int, 10)
	w, s, ended := doubtful(t, t.TempDir(), func(w *Worker, d *hosts.Device) error {
		asked <- d.ID()
		if d.ID() == 0 {
			return &pjrt.Error{Code: 8, Name: "RESOURCE_EXHAUSTED", Message: "Out of memory while trying to allocate 4 bytes."}
		}
		return w.fourBytes(d)
	})
	keep(t, s, "x", []float32{3, 1, 4, 1})
	var e *wire.Error
	for range 2 { // and the devices are asked again
		err := astray(s)
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED") || e.Next != "" {
			t.Fatalf("got error %#v, want the plugin's and no hint", err)
		}
		for _, d := range w.devices {
			select {
			case got := <-asked:
				if got != d.ID() {
					t.Errorf("device %d was asked, want %d", got, d.ID())
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("nobody has asked device %d after %v", d.ID(), err)
			}
		}
		if why := w.lost(); why != nil {
			t.Errorf("the devices count as lost: %v", why)
		}
	}
	for _, err := range []error{pjrt.ErrOutOfMemory, pjrt.ErrUnimplemented, pjrt.ErrInvalidArgument, pjrt.ErrClosed} {
		w.checkDevices(err, wire.Errorf(wire.Invalid, "%v", err)) // these are of the request
	}
	kept(t, s, "x", []float32{3, 1, 4, 1})
	select {
	case err := <-ended:
		t.Errorf("the worker has ended: %v", err)
	case <-asked:
		t.Error("the devices were asked without need")
	case <-time.After(2 * grace):
	}
}

// TestDoubtfulForLong: who has an error is told of it also while a device is too busy
// to answer.
func TestDoubtfulForLong(t *testing.T) {
	defer func(was time.Duration) { patient = was }(patient)
	patient = 10 * time.Millisecond
	free := make(chan struct{})
	w, s, _ := doubtful(t, t.TempDir(), func(*Worker, *hosts.Device) error { <-free; return nil })
	if err := astray(s); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED") {
		t.Errorf("got error %v, want the plugin's", err)
	}
	close(free)
	keep(t, s, "x", []float32{3, 1, 4, 1})
	kept(t, s, "x", []float32{3, 1, 4, 1})
	if why := w.lost(); why != nil {
		t.Errorf("the devices count as lost: %v", why)
	}
}

// TestDeviceLost: a worker whose devices do not answer says what to do and of what it
// ends, and the next one has the arrays and the jobs.
func TestDeviceLost(t *testing.T) {
	dir := t.TempDir()
	w, s, ended := doubtful(t, dir, func(*Worker, *hosts.Device) error { return errors.New("four bytes went and none came") })
	keep(t, s, "x", []float32{3, 1, 4, 1})
	keep(t, s, "y", []float32{0, 0, 0, 0})
	double, err := written(s, "double", func(f *hlo.Function, x compute.Value) (compute.Value, error) { return f.Add(x, x) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartJob(session.Job{Name: "doubling", Turns: 1 << 30, Steps: []session.JobStep{{Program: double, Inputs: session.Named("x"), Names: []string{"y"}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PauseJob("doubling"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(""); err != nil {
		t.Fatal(err)
	}
	var e *wire.Error
	if err := astray(s); !errors.As(err, &e) || !strings.Contains(e.Next, "newest snapshot") {
		t.Errorf("got error %#v, want one that says what comes back", err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "device lost: ") || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED") {
			t.Errorf("the worker has ended with %v, want what has lost the devices", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the worker goes on without devices")
	}
	// A step that fails now is not the job's fault.
	w.mu.Lock()
	w.unbind(name{"doubt", "x"})
	w.mu.Unlock()
	if _, err := s.ResumeJob("doubling"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.spaces["doubt"].jobs["doubling"].ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the job goes on without devices")
	}
	s.Close()
	later := t.TempDir()
	if err := os.Rename(filepath.Join(dir, "snapshots"), filepath.Join(later, "snapshots")); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(later, "snapshots", "lock")) // which belongs to this process until it ends
	_, s, _ = doubtful(t, later, (*Worker).fourBytes)
	kept(t, s, "x", []float32{3, 1, 4, 1})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		jobs, err := s.Jobs()
		if err != nil || len(jobs) != 1 || jobs[0].State.Over() || time.Now().After(end) {
			t.Fatalf("got jobs %+v, %v, want the one that was at work, at work", jobs, err)
		}
		if jobs[0].Place.Turn > 0 {
			break
		}
	}
	if _, err := s.StopJob("doubling"); err != nil {
		t.Error(err)
	}
	kept(t, s, "y", []float32{6, 2, 8, 2})
}
