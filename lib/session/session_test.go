package session

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/compute/support/backendtest"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestBackend is GoMLX's compliance suite over a real socket to a real worker.
func TestBackend(t *testing.T) {
	p := serve(t)
	backendtest.RunAll(t, p.open("backend").Backend(), nil)
}

func f32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }

// compile makes a program from a graph function over inputs of the given
// shapes.
func compile(t *testing.T, s *Session, o Options, build func(in []*Node) []*Node, in ...shapes.Shape) *Program {
	t.Helper()
	g := NewGraph(s.Backend(), t.Name())
	var nodes []*Node
	for i, sh := range in {
		nodes = append(nodes, Parameter(g, fmt.Sprint("x", i), sh))
	}
	if err := g.Compile(build(nodes)...); err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(g.Executable().(*Executable).Program(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// addOne is a program that adds 1 to each input.
func addOne(t *testing.T, s *Session, o Options, in ...shapes.Shape) *Program {
	return compile(t, s, o, func(in []*Node) []*Node {
		var out []*Node
		for _, x := range in {
			out = append(out, AddScalar(x, 1))
		}
		return out
	}, in...)
}

func put(t *testing.T, s *Session, v ...float32) *Array {
	t.Helper()
	a, err := s.Put(v, f32(len(v)), 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func values(t *testing.T, a *Array) []float32 {
	t.Helper()
	v := make([]float32, a.shape.Size())
	if err := a.Values(v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDonation(t *testing.T) {
	p := serve(t)
	s := p.open("donation")
	x := addOne(t, s, Options{Donate: []bool{true, false}}, f32(4), f32(4))
	a, b := put(t, s, 1, 2, 3, 4), put(t, s, 5, 6, 7, 8)
	for range 100 {
		out, err := x.Run(Call{Inputs: []*Array{a, b}})
		if err != nil {
			t.Fatal(err)
		}
		a = out[0]
		out[1].Finalize()
	}
	if got := fmt.Sprint(values(t, a)); got != "[101 102 103 104]" {
		t.Errorf("got %s", got)
	}
	old := a
	if _, err := x.Run(Call{Inputs: []*Array{a, b}}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Run(Call{Inputs: []*Array{old, b}}); !errors.Is(err, wire.Gone) {
		t.Errorf("use of a donated array: got %v, want %v", err, wire.Gone)
	}
	if err := old.Values(make([]float32, 4)); !errors.Is(err, wire.Gone) {
		t.Errorf("read of a donated array: got %v, want %v", err, wire.Gone)
	}
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	st, _ := s.Status()
	if st.Bytes > 16*5 {
		t.Errorf("%d bytes are alive: donated state is held more than once", st.Bytes)
	}
}

func TestErrorsSurface(t *testing.T) {
	p := serve(t)
	s := p.open("errors")
	x := addOne(t, s, Options{}, f32(4))
	foreign := put(t, p.open("errors"), 1, 2, 3, 4)
	tests := []struct {
		name string
		in   []*Array
		want error
		text string
	}{
		{"count", nil, wire.Invalid, "got 0 inputs, want 1"},
		{"shape", []*Array{put(t, s, 1, 2)}, wire.Invalid, "has shape (Float32)[2], want (Float32)[4]"},
		{"foreign", []*Array{foreign}, wire.Invalid, "another connection"},
		{"nil", []*Array{nil}, wire.Invalid, "input 0 is nil"},
	}
	for _, tt := range tests {
		if _, err := x.Run(Call{Inputs: tt.in}); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.text)
		}
	}
	bind := []struct {
		name  string
		array *Array
		text  string
	}{
		{"foreign", foreign, `bind of "w": array belongs to another connection`},
		{"nil", nil, `bind of "w": array is nil`},
	}
	for _, tt := range bind {
		if err := s.Bind([]string{"w"}, []*Array{tt.array}); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("bind, %s: got %v, want %q", tt.name, err, tt.text)
		}
	}
	if _, err := s.Put([]float32{1}, shapes.Shape{}, 0); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "no shape") {
		t.Errorf("put with the zero Shape: got %v, want an error", err)
	}
	if got, want := s.String(), `notebook "errors" in gaiden session, generation 1: `; !strings.HasPrefix(got, want) {
		t.Errorf("session is shown as %s, want %s…", got, want)
	}
	shown := put(t, s, 1, 2)
	if got, want := shown.String(), "(Float32)[2] on device 0"; got != want {
		t.Errorf("array is shown as %s, want %s", got, want)
	}
	shown.Finalize()
	if got, want := shown.String(), "(Float32)[2] on device 0, freed or donated"; got != want {
		t.Errorf("freed array is shown as %s, want %s", got, want)
	}
	// An error in a chain of pipelined programs surfaces at the end of it and
	// at Wait, once each.
	bad, err := s.Put([]float32{1, 2, 3, 4}, f32(4), 17)
	if err != nil {
		t.Fatal(err)
	}
	out := []*Array{bad}
	for range 10 {
		if out, err = x.Run(Call{Inputs: out}); err != nil {
			t.Fatal(err)
		}
	}
	if err := out[0].Values(make([]float32, 4)); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "device 17") {
		t.Errorf("got %v, want the upload's error", err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("the error was read already, Wait gives it again: %v", err)
	}
	if _, err = s.Put([]float32{1}, f32(1), 18); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); !errors.Is(err, wire.Invalid) {
		t.Errorf("nobody has read it: Wait gives %v", err)
	}
	if _, err := s.Put([]float32{1}, f32(2), 0); !errors.Is(err, wire.Invalid) {
		t.Errorf("wrong size: got %v", err)
	}
	if _, err := s.Put([]string{"a"}, f32(1), 0); !errors.Is(err, wire.Invalid) {
		t.Errorf("wrong type: got %v", err)
	}
	if err := s.Bind([]string{strings.Repeat("x", 10<<10)}, []*Array{put(t, s, 1)}); !errors.Is(err, wire.Invalid) {
		t.Errorf("long name: got %v", err)
	}
	if err := s.Bind([]string{"a\nb"}, []*Array{put(t, s, 1)}); !errors.Is(err, wire.Invalid) {
		t.Errorf("control character: got %v", err)
	}
}

func TestTransfers(t *testing.T) {
	p := serve(t)
	s := p.open("transfers")
	for _, n := range []int{0, 1, 1000, bulk/4 - 1, bulk / 4, 1 << 20, 5<<20 + 3} {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(i % 8191)
		}
		a := put(t, s, v...)
		got := values(t, a)
		for i := range v {
			if got[i] != v[i] {
				t.Fatalf("n %d: element %d is %v, want %v", n, i, got[i], v[i])
			}
		}
	}
	for _, tt := range []struct {
		in, out any
		dtype   dtypes.DType
	}{
		{[]bool{true, false}, make([]bool, 2), dtypes.Bool},
		{[]int8{-1, 2}, make([]int8, 2), dtypes.Int8},
		{[]uint16{1, 65535}, make([]uint16, 2), dtypes.Uint16},
		{[]int64{math.MinInt64, 2}, make([]int64, 2), dtypes.Int64},
		{[]float64{math.Pi, math.Inf(1)}, make([]float64, 2), dtypes.Float64},
		{[]complex64{complex(1, 2), 3}, make([]complex64, 2), dtypes.Complex64},
	} {
		a, err := s.Put(tt.in, shapes.Make(tt.dtype, 2), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Values(tt.out); err != nil || fmt.Sprint(tt.out) != fmt.Sprint(tt.in) {
			t.Errorf("%s: got %v, %v, want %v", tt.dtype, tt.out, err, tt.in)
		}
	}
}

func TestOneCompilation(t *testing.T) {
	p := serve(t)
	var wg sync.WaitGroup
	from := make([]wire.Source, 8)
	for i := range from {
		s := p.open("compile")
		wg.Go(func() { from[i] = addOne(t, s, Options{}, f32(33)).From })
	}
	wg.Wait()
	compiled := 0
	for _, f := range from {
		if f == wire.Compiled {
			compiled++
		}
	}
	if compiled != 1 {
		t.Errorf("%d of %d clients compiled the program (%v): want 1", compiled, len(from), from)
	}
}

func TestWorkerDies(t *testing.T) {
	p := serve(t)
	s := p.open("dies")
	a := put(t, s, 1, 2)
	if err := s.Bind([]string{"w"}, []*Array{a}); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.worker(s), syscall.SIGKILL)
	err := a.Values(make([]float32, 2))
	if !errors.Is(err, wire.Lost) || !strings.Contains(err.Error(), "generation is now 2") || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want the worker's end and the new generation", err)
	}
	next := p.reopen("dies")
	if g := next.Welcome().Generation; g != 2 {
		t.Errorf("generation %d, want 2", g)
	}
	if got := values(t, put(t, next, 7)); got[0] != 7 {
		t.Errorf("got %v, want 7", got)
	}
	if _, err := addOne(t, next, Options{}, f32(2)).Run(Call{Inputs: []*Array{a}}); err == nil {
		t.Error("an array of the old generation was accepted")
	}
}

func TestSecondSupervisor(t *testing.T) {
	p := serve(t)
	q := &process{t: t, socket: p.socket}
	if line := q.start("GAIDEN_SOCKET=" + p.socket); line != "" {
		t.Errorf("second supervisor said %q, want nothing", line)
	}
	p.open("second") // the first one still serves
}

func TestBadPlugins(t *testing.T) {
	needPlugin(t)
	text := t.TempDir() + "/text.so"
	os.WriteFile(text, []byte(strings.Repeat("no library\n", 100)), 0o600)
	tests := []struct {
		name string
		env  []string
		want string
	}{
		{"missing", []string{"GAIDEN_PLUGIN=/no/such/plugin.so"}, "no such"},
		{"text", []string{"GAIDEN_PLUGIN=" + text}, "text.so"},
		{"library", []string{"GAIDEN_PLUGIN=libc.so.6"}, "libc.so.6"},
		{"device", []string{"GAIDEN_DEVICE=tpu"}, "want cpu, cuda or cuda:N"},
		{"ordinal", []string{"GAIDEN_DEVICE=cuda:x"}, "want cpu, cuda or cuda:N"},
		{"no fraction", []string{"GAIDEN_MEMORY_FRACTION=much"}, `GAIDEN_MEMORY_FRACTION is "much": want a number above 0 and up to 1`},
		{"a fraction of nothing", []string{"GAIDEN_MEMORY_FRACTION=0"}, `is "0": want`},
		{"more than all", []string{"GAIDEN_MEMORY_FRACTION=1.01"}, `is "1.01": want`},
		{"a fraction that is no number", []string{"GAIDEN_MEMORY_FRACTION=NaN"}, `is "NaN": want`},
		{"no plugin", []string{"GAIDEN_PLUGIN=", "GAIDEN_DEVICE=cpu", "XDG_CACHE_HOME=/no/such/dir"}, "no XLA plugin"},
	}
	if _, err := os.Stat("/proc/driver/nvidia/version"); err != nil {
		tests = append(tests, []struct {
			name string
			env  []string
			want string
		}{
			{"no GPU", []string{"GAIDEN_PLUGIN=", "GAIDEN_DEVICE=cuda"}, "no NVIDIA driver"},
			{"no GPU plugin", []string{"GAIDEN_DEVICE=cuda"}, "got a plugin for another device, want one for CUDA"},
		}...)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &process{t: t, socket: t.TempDir() + "/run/session.sock"}
			line := p.start(append(tt.env, "GAIDEN_SOCKET="+p.socket)...)
			e := &wire.Error{}
			if err := wire.DecodeJSON(wire.Failed, []byte(line), e); err != nil || !strings.Contains(strings.ToLower(e.Text), strings.ToLower(tt.want)) || e.Next == "" && tt.name != "device" && tt.name != "ordinal" {
				t.Errorf("got %q, want an error with %q and a hint", line, tt.want)
			}
		})
	}
}

func TestNoSession(t *testing.T) {
	socket := t.TempDir() + "/none.sock"
	_, err := Config{Socket: socket, NoStart: true}.Open()
	var d *DialError
	if !errors.As(err, &d) || !strings.Contains(d.Hint(), "session start") || !errors.Is(err, wire.Unavailable) {
		t.Fatalf("got %v, want a DialError with a hint", err)
	}
	if got, want := err.Error(), "session: no device session at "+socket+": connect: no such file or directory"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGarbage holds that a loop that drops its results does not fill the
// device.
func TestGarbage(t *testing.T) {
	p := serve(t)
	s := p.open("garbage")
	x := addOne(t, s, Options{}, f32(1<<20))
	a := put(t, s, make([]float32, 1<<20)...)
	most := int64(0)
	for i := range 400 { // 1.6 GB in all
		if _, err := x.Run(Call{Inputs: []*Array{a}}); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if err := s.Wait(); err != nil {
				t.Fatal(err)
			}
			st, err := s.Status()
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, st.Bytes)
		}
	}
	if most > 3*leastHeld {
		t.Errorf("%d MB were held at once: want at most %d", most>>20, 3*leastHeld>>20)
	}
}

// TestManyClients holds that clients do not disturb each other.
func TestManyClients(t *testing.T) {
	p := serve(t)
	var wg sync.WaitGroup
	for i := range 16 {
		s := p.open(fmt.Sprint("space", i))
		x := addOne(t, s, Options{Donate: []bool{true}}, f32(8))
		wg.Go(func() {
			l := []*Array{put(t, s, float32(i), 0, 0, 0, 0, 0, 0, 0)}
			var err error
			for range 200 {
				if l, err = x.Run(Call{Inputs: l, Names: []string{"x"}}); err != nil {
					t.Error(err)
					return
				}
			}
			if v := values(t, l[0]); v[0] != float32(i+200) {
				t.Errorf("client %d: got %v, want %d", i, v[0], i+200)
			}
		})
	}
	wg.Wait()
}
