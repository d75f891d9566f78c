package tiling

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/lower"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// TestMain lets the test program play the session's processes too.
func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	os.Exit(m.Run())
}

// socket is that of the session of the test that runs.
var socket string

// again connects to the worker that comes after a lost one.
func again(t *testing.T) *session.Session {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		s, err := session.Config{Socket: socket, Space: "tiling"}.Open()
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// serve starts a session for the test and connects to it.
func serve(t *testing.T) *session.Session {
	t.Helper()
	socket = devicetest.Start(t)
	s, err := session.Config{Socket: socket, Space: "tiling"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// gpu is a target with kernels.
var gpu = lower.Target{Platform: "cuda", Triton: true}

var ops = []kernels.Op{
	kernels.Linear{Batch: 4, In: 20, Out: 7, Act: kernels.ReLU},
	kernels.LinearInput{Batch: 4, In: 20, Out: 7, Act: kernels.Tanh},
	kernels.LinearUpdate{Batch: 4, In: 20, Out: 7, Rule: optim.Adam{}.Rule()},
	kernels.Head{Batch: 4, In: 20, Classes: 3},
	kernels.Conv{Geometry: kernels.Geometry{Batch: 2, Height: 8, Width: 8, In: 1, Out: 3, Size: 3, Pool: true}},
	kernels.ConvInput{Geometry: kernels.Geometry{Batch: 2, Height: 8, Width: 8, In: 2, Out: 3, Size: 3}},
	kernels.ConvGradient{Geometry: kernels.Geometry{Batch: 2, Height: 8, Width: 8, In: 1, Out: 3, Size: 3, Pad: 1, Pool: true}},
	kernels.Gather{Examples: 9, Size: 130, Batch: 3, Steps: 2, X: dtypes.Uint8, Y: dtypes.BFloat16},
	kernels.Gather{Examples: 9, Size: 5, Batch: 2, X: dtypes.Float32},
	kernels.Softmax{Batch: 9, Classes: 7, X: dtypes.Float32, G: dtypes.BFloat16},
	kernels.Recurrence{Length: 3, Batch: 2, Units: 5},
	kernels.Recurrence{Cell: kernels.GRU, Length: 3, Batch: 2, Units: 5},
	kernels.RecurrenceBack{Recurrence: kernels.Recurrence{Cell: kernels.GRU, Length: 3, Batch: 2, Units: 5}},
	kernels.Recurrence{Cell: kernels.RNN, Act: kernels.ReLU, Length: 3, Batch: 2, Units: 5},
	kernels.RecurrenceBack{Recurrence: kernels.Recurrence{Cell: kernels.RNN, Act: kernels.Tanh, Length: 3, Batch: 2, Units: 5, Compute: dtypes.BFloat16}},
	kernels.Recurrence{Length: 3, Batch: 2, Units: 5, Compute: dtypes.BFloat16},
	kernels.RecurrenceBack{Recurrence: kernels.Recurrence{Length: 3, Batch: 2, Units: 5}},
	kernels.RecurrenceBack{Recurrence: kernels.Recurrence{Length: 3, Batch: 2, Units: 5, Compute: dtypes.BFloat16}},
	kernels.HeadReduce{Batch: 9, In: 20, Classes: 3, Parts: 5, Act: kernels.Tanh},
	kernels.HeadReduce{Batch: 9, In: 20, Classes: 16, Parts: 1, X: dtypes.BFloat16, G: dtypes.BFloat16, Compute: dtypes.BFloat16, NoBias: true},
	kernels.PartsUpdate{Parts: 5, Weights: f32(3, 3, 2, 4), Rule: optim.Adam{}.Rule()},
	kernels.PartsUpdate{Parts: 300, Weights: f32(3, 4), Rule: optim.SGD{Momentum: 0.9}.Rule()},
}

// TestPrograms writes the programs that time the ops, with and without kernels.
func TestPrograms(t *testing.T) {
	for _, op := range ops {
		f, err := FormOf(op)
		if err != nil {
			t.Fatal(err)
		}
		for _, plain := range []bool{true, false} {
			p, err := Write(op.Key(), gpu, hlo.DefaultPrecision, f.Shapes(), func(b *hlo.Builder, in []*Node) []*Node {
				o := fused.Ops{Compute: f.Compute}
				if !plain {
					o.Builder = b
				}
				return f.Loop(o, in)
			})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Count(string(p.Text(nil)), "__gpu$xla.gpu.triton(")
			if plain != (got == 0) || got%Repeat != 0 {
				t.Errorf("%s: got %d kernels in the loop's body, want some for each of %d repetitions, and none without kernels", op.Key(), got, Repeat)
			}
		}
	}
}

// TestMeasure times each op in XLA's form on a real session.
func TestMeasure(t *testing.T) {
	s := serve(t)
	for _, op := range ops {
		took, err := measure(s, op, true, nil)
		if micros := took.op(); err != nil || micros <= 0 || micros > 1e6 {
			t.Errorf("%s: got %v µs and error %v, want less than a second", op.Key(), took.op(), err)
		}
	}
	// A CPU has no kernels: XLA's form is all there is, and it is kept.
	table, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	table.Path = filepath.Join(t.TempDir(), "table.json")
	if table.Choose(ops[0]) == nil {
		t.Fatal("an op that nobody knows: got XLA's form, want the usual tiling")
	}
	told := 0
	if err := table.Try(context.Background(), s, Options{Found: func(kernels.Op, Entry) { told++ }}); err != nil {
		t.Fatal(err)
	}
	if table.Choose(ops[0]) == nil || told != 2 {
		t.Errorf("after Try: got XLA's form, or %d reports, want the usual tiling as long as nobody has accepted, and 2", told)
	}
	if table.UseProposed(true); table.Choose(ops[0]) != nil {
		t.Error("with trust: got a kernel, want XLA's form")
	}
	table.UseProposed(false)
	if table.Accept(ops...); table.Choose(ops[0]) != nil || len(table.Wanted()) != 0 {
		t.Errorf("accepted: got a kernel, or %d ops wanted, want XLA's form and 0", len(table.Wanted()))
	}
}

// TestDisturbed holds that what was measured while somebody else asked for something is
// measured again, but not for ever.
func TestDisturbed(t *testing.T) {
	s := serve(t)
	other, err := session.Config{Socket: socket, Space: "other"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, tt := range []struct {
		name            string
		quiet, measured int // the measurement that nobody disturbs, and how many there are
	}{
		{"nobody", 1, 1},
		{"somebody at first", 3, 3},
		{"always somebody", disturbed + 1, disturbed},
	} {
		n, stop := 0, func() {}
		l := looking{t.Context(), s, Options{Before: func() error {
			n++
			stop()
			stop = func() {}
			for busy := true; busy; { // the worker is done with the last frame in a moment
				if _, busy, err = s.Pulse(); err != nil {
					return err
				}
			}
			if n < tt.quiet {
				stop = ask(t, other)
			}
			return nil
		}, Other: s}, map[string]float64{}}
		micros, own, err := l.measure(ops[0], true)
		stop()
		if micros <= 0 || own != nil || err != nil || n != tt.measured {
			t.Errorf("%s: got %v µs after %d measurements, %v, %v, want a time after %d", tt.name, micros, n, own, err, tt.measured)
		}
	}
}

// ask has a session put arrays until it is told to stop. It has begun when ask returns, and
// has nothing more to send when stop does.
func ask(t *testing.T, s *session.Session) (stop func()) {
	begun, end, ended := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0)
			if err == nil {
				a.Finalize()
				err = s.Wait()
			}
			if err != nil {
				t.Error(err)
				return
			}
			if n == 0 {
				close(begun)
			}
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	<-begun
	return func() { close(end); <-ended }
}

// wide is a convolution that XLA does, as long as nobody knows better.
var wide = kernels.Conv{Geometry: kernels.Geometry{Batch: 2, Height: 8, Width: 8, In: 32, Out: 3, Size: 3}}

// TestTable needs no device.
func TestTable(t *testing.T) {
	table := &Table{Path: filepath.Join(t.TempDir(), "deep", "table.json")}
	op, tile := ops[0], kernels.Tile{M: 16, N: 32, K: 64, Warps: 2, Stages: 5}
	if got := table.Choose(op); got == nil || got.Key() != op.Key() || len(table.Wanted()) != 1 {
		t.Errorf("unknown: got %v and %d wanted, want the op and 1", got, len(table.Wanted()))
	}
	table.Set(op.Key(), Entry{Tile: tile, Micros: 2, Plain: 3, Tried: 1})
	if table.Choose(op).(kernels.Linear).Tile != tile || len(table.Wanted()) != 1 {
		t.Errorf("known in part: got %d wanted, want what was found and 1", len(table.Wanted()))
	}
	table.Set(op.Key(), Entry{Tile: tile, Micros: 2, Plain: 3, Tried: len(op.Tiles())})
	if got := table.Choose(op); got == nil || got.(kernels.Linear).Tile != tile || len(table.Wanted()) != 0 {
		t.Errorf("known: got %v, want tile %s", got, tile)
	}
	table.Set(ops[1].Key(), Entry{Tile: tile, Micros: 3, Plain: 2})
	if table.Choose(ops[1]) != nil {
		t.Error("XLA's form is faster: got a kernel")
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	again := &Table{Path: table.Path}
	if err := again.Refresh(); err != nil || again.Choose(op).(kernels.Linear).Tile != tile || again.Choose(ops[1]) != nil {
		t.Errorf("read again: got %+v and %v, want what was saved", again.known, err)
	}
	saved, err := os.ReadFile(table.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(table.Path, bytes.Replace(saved, []byte(`"plain": 2`), []byte(`"plain": 9`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	flipped := &Table{Path: table.Path}
	if err := flipped.Refresh(); err != nil || len(flipped.known) != 0 {
		t.Errorf("a digit has changed: got %+v and %v, want nothing known", flipped.known, err)
	}
	if err := os.WriteFile(table.Path, []byte(`{"torn`), 0o600); err != nil {
		t.Fatal(err)
	}
	torn := &Table{Path: table.Path}
	if err := torn.Refresh(); err != nil || torn.Choose(ops[1]) == nil {
		t.Errorf("torn: got %v and what nobody knows, want nothing known", err)
	}
	table.Reset(op, ops[1], wide)
	if table.Choose(op).(kernels.Linear).Tile != (kernels.Tile{}) || table.Choose(ops[1]) == nil || table.Choose(wide) != nil || len(table.Wanted()) != 0 {
		t.Errorf("as usual: got %v, %v, %v and %d wanted, want two kernels, XLA's form and 0", table.Choose(op), table.Choose(ops[1]), table.Choose(wide), len(table.Wanted()))
	}
	if old, err := os.Stat(table.Path); err != nil || again.Refresh() != nil || again.Choose(ops[1]) != nil {
		t.Errorf("torn since it was read: got what nobody knows, or %v of %v, want what was known", err, old)
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	before := again.Changes()
	if err := again.Refresh(); err != nil || again.Choose(ops[1]) == nil || again.Changes() == before {
		t.Errorf("found by another meanwhile: got %+v and %v, want what the other has saved", again.known, err)
	}
	before = again.Changes()
	if err := errors.Join(again.Refresh(), again.Save()); err != nil || again.Changes() != before {
		t.Errorf("nothing new: got %d changes and %v, want none", again.Changes()-before, err)
	}
	last := &Table{Path: table.Path}
	if err := last.Refresh(); err != nil || last.Choose(ops[1]) == nil {
		t.Errorf("saved by one who had only read it: got %+v and %v, want what it was", last.known, err)
	}
	if len((&Table{}).Wanted()) != 0 {
		t.Error("the zero table wants something")
	}
}
