package session

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
)

// TestOtherNotebook: who asks for arrays of a notebook that has none hears which
// one may be meant, also when that is only on disk.
func TestOtherNotebook(t *testing.T) {
	p := serve(t)
	first := p.open("/home/ada/nets/mlp")
	bindAll(t, first, map[string][]float32{"w": {1}})
	if _, err := first.Snapshot("kept"); err != nil {
		t.Fatal(err)
	}
	askAll(t, first, wire.AskBody{Verb: wire.Stop})
	p.Wait()
	p.again()
	s := p.open("other")
	tests := []struct{ space, name, text, hint string }{
		{"mlp.ipynb", "w", `notebook "mlp.ipynb" has no arrays; did you mean notebook "/home/ada/nets/mlp"?`, "%device lists"},
		{"/home/ada/nets/mlp.ipynb", "w", `has no arrays; did you mean notebook "/home/ada/nets/mlp"?`, "%device lists"},
		{"/home/ada/nets/mpl", "w", `has no arrays; did you mean notebook "/home/ada/nets/mlp"?`, "%device lists"},
		{"unheard of", "w", "has no arrays", "%device lists"},
		{"/home/ada/nets/mlp", "v", `no array "v" in notebook "/home/ada/nets/mlp"; did you mean "w"?`, "%arrays lists"},
		{"other", "v", `no array "v" in notebook "other"`, "%arrays lists"},
	}
	for _, tt := range tests {
		_, err := s.ArraysOf(tt.space, tt.name)
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.NotFound || !strings.Contains(e.Text, tt.text) || !strings.Contains(e.Next, tt.hint) {
			t.Errorf("%s of %s: got %v, hint %q; want %q, hint %q", tt.name, tt.space, err, e.Next, tt.text, tt.hint)
		}
	}
	l, err := s.ArraysOf("/home/ada/nets/mlp", "w")
	if err != nil || values(t, l[0])[0] != 1 {
		t.Errorf("by its name: got %v", err)
	}
}

// TestAdvice: the kernel hears the hint of what a program has died of, and an
// error that the program was told is not told again.
func TestAdvice(t *testing.T) {
	p := serve(t)
	kernel := p.open("cell")
	s := p.open("cell")
	if err := s.Quota(1000); err != nil {
		t.Fatal(err)
	}
	big := put(t, s, make([]float32, 1000)...)
	err := s.Bind([]string{"big"}, []*Array{big})
	if !errors.Is(err, wire.OutOfMemory) {
		t.Fatalf("got %v, want that the quota is too small", err)
	}
	s.Close()
	ans := askAll(t, kernel, wire.AskBody{Verb: wire.Drain, PID: os.Getpid()})
	if len(ans.Errors) != 0 {
		t.Errorf("got %v as errors that nobody has read, want none", ans.Errors)
	}
	if len(ans.Told) != 1 || ans.Told[0].Error() != err.Error() || !strings.Contains(ans.Told[0].Hint(), "%arrays") {
		t.Errorf("got %v as errors that were told, want %v with its hint", ans.Told, err)
	}
	if ans := askAll(t, kernel, wire.AskBody{Verb: wire.Drain, PID: os.Getpid()}); len(ans.Told) != 0 {
		t.Errorf("got %v a second time", ans.Told)
	}
}

// TestFull: who has no room hears what fills the device, of other notebooks too,
// and not what could not be made.
func TestFull(t *testing.T) {
	p := serve(t)
	bindAll(t, p.open("neighbour"), map[string][]float32{"theirs": make([]float32, 50_000)})
	s := p.open("full")
	bindAll(t, s, map[string][]float32{"mine": make([]float32, 40_000), "one": {1}})
	older, err := s.Array("one")
	if err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"one": {2}}) // older is held by the program, which still has it below
	x, err := s.Array("one")
	if err != nil {
		t.Fatal(err)
	}
	large := compile(t, s, Options{}, func(in []*Node) []*Node { return []*Node{BroadcastToDims(in[0], 1<<22, 1<<20)} }, f32(1))
	out, err := large.Run(Call{Inputs: []*Array{x}})
	if err == nil {
		err = s.Wait()
	}
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.OutOfMemory {
		t.Fatalf("16 TiB: got %v and %v, want that there is no room", out, err)
	}
	if !strings.Contains(e.Text, "of the machine's memory are free") {
		t.Errorf("got %q, want how much memory there is", e.Text)
	}
	const want = `arrays hold 0.4 MB; largest: theirs of notebook "neighbour" float32[50000] 0.2 MB, mine float32[40000] 0.2 MB, one float32[1] 4 bytes, older one float32[1] 4 bytes; delete what is not needed (%arrays lists all) or use a smaller batch`
	if e.Next != want {
		t.Errorf("got %s\nwant %s", e.Next, want)
	}
	runtime.KeepAlive(older)
	if err := s.Quota(300_000); err != nil {
		t.Fatal(err)
	}
	if err := put(t, s, make([]float32, 50_000)...).Values(make([]float32, 50_000)); !errors.As(err, &e) || strings.Contains(e.Next, "theirs") || !strings.HasSuffix(e.Next, "; %device quota SIZE sets another bound") {
		t.Errorf("quota: got %v, hint %q", err, e.Next)
	}
}

// TestOrigin: lists say which cell a program is of.
func TestOrigin(t *testing.T) {
	p := serve(t)
	s := p.open("/home/ada/mlp")
	t.Setenv(CellEnv, "7")
	addOne(t, s, Options{}, f32(3))
	addOne(t, s, Options{Origin: "elsewhere"}, f32(4))
	got := map[string]string{}
	for _, i := range askAll(t, s, wire.AskBody{Verb: wire.Programs}).Programs {
		got[i.Shapes] = i.Origin
	}
	for shapes, want := range map[string]string{"float32[3] → float32[3]": "cell 7 of mlp", "float32[4] → float32[4]": "elsewhere"} {
		if got[shapes] != want {
			t.Errorf("program %s is of %q, want %q", shapes, got[shapes], want)
		}
	}
}

// TestEvictMisses: evict says why it evicts nothing.
func TestEvictMisses(t *testing.T) {
	s := serve(t).open("evict")
	x := addOne(t, s, Options{}, f32(3))
	hash := askAll(t, s, wire.AskBody{Verb: wire.Programs}).Programs[0].Hash
	tests := []struct {
		ask  wire.AskBody
		want wire.Code
		text string
	}{
		{wire.AskBody{Verb: wire.Evict, Names: []string{hash}}, wire.Invalid, "in use"},
		{wire.AskBody{Verb: wire.Evict, Names: []string{"zz"}}, wire.NotFound, `no program "zz" in memory`},
		{wire.AskBody{Verb: wire.Pin, Start: true}, wire.Invalid, "no program was named"},
		{wire.AskBody{Verb: wire.Pin, Names: []string{hash, "zz"}, Start: true}, wire.NotFound, `no program "zz" in memory`},
	}
	for _, tt := range tests {
		if _, err := s.Ask(tt.ask); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s %q: got %v, want %s: %s", tt.ask.Verb, tt.ask.Names, err, tt.want, tt.text)
		}
	}
	if askAll(t, s, wire.AskBody{Verb: wire.Programs}).Programs[0].Pinned {
		t.Error("the one is pinned though the other is not there")
	}
	if _, err := x.Run(Call{Inputs: []*Array{put(t, s, 1, 2, 3)}}); err != nil {
		t.Errorf("a program that was not evicted: %v", err)
	}
}
